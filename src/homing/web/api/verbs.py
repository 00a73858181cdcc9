"""Repairing by REST: the operator's verbs."""

from __future__ import annotations

from typing import TypedDict

from starlette.responses import Response

from homing.content.characters import check_label
from homing.domain.delivery import Delivery
from homing.domain.errors import InvalidRequest
from homing.engine.ops.verbs import VERBS, Verb
from homing.engine.process.pausing import KNOWN_WITHIN_S
from homing.runtime.app import Homing
from homing.web.api.intake import Intake, email_of, takes_emails
from homing.web.api.listing import Listing, id_of
from homing.web.api.schemas import VERB_BODIES, PausedOut, VerbIn
from homing.web.http.answers import json_answer
from homing.web.http.calls import Call, Endpoint
from homing.web.http.problems import BadRequest

MAX_VERB_BYTES = 32_768


class Signed(TypedDict):
    """Who does it, and why."""

    actor: str
    reason: str


class Verbs:
    def __init__(self, homing: Homing, listing: Listing, intake: Intake) -> None:
        self._homing = homing
        self._listing = listing
        self._intake = intake

    def endpoint(self, verb: Verb) -> Endpoint:
        """POST …/{verb}: 409 when the state or the route does not allow it."""
        row, takes = VERBS[verb], VERB_BODIES[verb]
        limit_bytes = self._intake.limit_bytes if row.takes("email") else MAX_VERB_BYTES

        async def act(call: Call) -> Response:
            given = await self._intake.read(call, takes, limit_bytes)
            done = await self.use(call, verb, id_of(call), given)
            return json_answer(
                self._listing.ops(call).view(done), 201 if row.makes_a_new_one else 200
            )

        return act

    async def use(self, call: Call, verb: Verb, delivery_id: str, given: VerbIn) -> Delivery:
        """Use the verb on one delivery. Returns the delivery after it, or the new one."""
        signed = who(call, given.actor, given.reason)
        arguments = {each.name: getattr(given, each.name) for each in VERBS[verb].arguments}
        for each in VERBS[verb].arguments:
            if each.kind == "text" and arguments[each.name] is not None:
                check_label(arguments[each.name], each.name)
            elif each.kind == "email":
                await self._demand_emails(call, delivery_id)
                arguments[each.name] = email_of(arguments[each.name])
        try:
            return await self._listing.ops(call).use(verb, delivery_id, **signed, **arguments)
        except InvalidRequest as error:
            if VERBS[verb].takes("email"):
                raise type(error)(f"email.{error.field}", error.problem) from error
            raise

    async def _demand_emails(self, call: Call, delivery_id: str) -> None:
        delivery = await self._listing.ops(call).show(delivery_id)
        route = self._homing.engine.routes.get(delivery.route)
        if route is None or not takes_emails(route):
            raise BadRequest("its route takes no e-mails", "email", 409)

    async def pause(self, call: Call) -> Response:
        return await self._set_paused(call, paused=True)

    async def resume(self, call: Call) -> Response:
        return await self._set_paused(call, paused=False)

    async def _set_paused(self, call: Call, *, paused: bool) -> Response:
        given = await self._intake.read(call, VerbIn, MAX_VERB_BYTES)
        route = str(call.path_params["route"])
        return json_answer(await self.set_paused(call, route, given, paused=paused))

    async def set_paused(self, call: Call, route: str, given: VerbIn, *, paused: bool) -> PausedOut:
        """Stop a route, or start it again."""
        signed = who(call, given.actor, given.reason)
        await self._listing.demand_route(route, 404)
        ops = self._listing.ops(call)
        under_way = 0
        if paused:
            under_way = await ops.pause(route, **signed)
        else:
            await ops.resume(route, **signed)
        return PausedOut(route, paused, KNOWN_WITHIN_S, under_way)


def who(call: Call, actor: str | None, reason: str) -> Signed:
    """Both are shown to people later: one line each, without invisible or direction characters."""
    for field, text in (("actor", actor), ("reason", reason)):
        if text is None:
            continue
        check_label(text, field)
        if not text.strip():
            raise BadRequest("must not be blank", field, 422)
    return {"actor": call.signed(actor), "reason": reason}
