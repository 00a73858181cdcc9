"""Repairing by REST: the operator's verbs."""

from __future__ import annotations

from typing import Any, TypedDict

from starlette.responses import Response

from homing.content.characters import check_label
from homing.domain.delivery import Delivery
from homing.domain.errors import InvalidRequest
from homing.engine.process.pausing import KNOWN_WITHIN_S
from homing.runtime.app import Homing
from homing.web.api.intake import Intake, email_of, takes_emails
from homing.web.api.listing import Listing, id_of
from homing.web.api.schemas import (
    AmendIn,
    ConfirmIn,
    CycleVerbIn,
    PausedOut,
    ReplayIn,
    VerbIn,
)
from homing.web.http.answers import json_answer
from homing.web.http.calls import Call, Endpoint
from homing.web.http.problems import BadRequest

MAX_VERB_BYTES = 32_768
# What each verb takes. Those that change a dead letter can be pinned to the cycle that was seen.
VERBS: dict[str, type[VerbIn]] = {
    "replay": ReplayIn,
    "restart": CycleVerbIn,
    "dismiss": CycleVerbIn,
    "restore": VerbIn,
    "resend": VerbIn,
    "cancel": VerbIn,
    "confirm": ConfirmIn,
    "annotate": VerbIn,
    "amend": AmendIn,
}


class Signed(TypedDict):
    """Who does it, and why."""

    actor: str
    reason: str


class Verbs:
    def __init__(self, homing: Homing, listing: Listing, intake: Intake) -> None:
        self._homing = homing
        self._listing = listing
        self._intake = intake

    def endpoint(self, verb: str) -> Endpoint:
        """POST …/{verb}: 409 when the state or the route does not allow it."""
        takes = VERBS[verb]
        limit_bytes = self._intake.limit_bytes if takes is AmendIn else MAX_VERB_BYTES

        async def act(call: Call) -> Response:
            given = await self._intake.read(call, takes, limit_bytes)
            done = await self.use(call, verb, id_of(call), given)
            return json_answer(self._listing.view(call, done), 201 if verb == "resend" else 200)

        return act

    async def use(self, call: Call, verb: str, delivery_id: str, given: VerbIn) -> Delivery:
        """The verb on one delivery; it is returned as it is afterwards."""
        signed = who(call, given.actor, given.reason)
        desk = self._homing.desk
        more: dict[str, Any] = {}
        if isinstance(given, CycleVerbIn):
            more["cycle"] = given.cycle
        if isinstance(given, ReplayIn):
            more["generation"] = given.generation
        if isinstance(given, ConfirmIn):
            check_label(given.evidence, "evidence")
            more["evidence"] = given.evidence
        if verb == "annotate":
            await desk.annotate(delivery_id, actor=signed["actor"], note=signed["reason"])
            return await desk.show(delivery_id)
        if isinstance(given, AmendIn):
            return await self._amended(delivery_id, given, signed)
        done: Delivery = await getattr(desk, verb)(delivery_id, **signed, **more)
        return done

    async def _amended(self, delivery_id: str, given: AmendIn, signed: Signed) -> Delivery:
        """With the corrected e-mail, checked and frozen as if it were new."""
        desk = self._homing.desk
        route = self._homing.engine.routes.get((await desk.show(delivery_id)).route)
        if route is None or not takes_emails(route):
            raise BadRequest("its route takes no e-mails", "email", 409)
        try:
            return await desk.amend(delivery_id, email_of(given.email), **signed)
        except InvalidRequest as error:
            raise type(error)(f"email.{error.field}", error.problem) from error

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
        await self._listing.demand_route(route, refusal=404)
        desk = self._homing.desk
        under_way = 0
        if paused:
            under_way = await desk.pause(route, **signed)
        else:
            await desk.resume(route, **signed)
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
