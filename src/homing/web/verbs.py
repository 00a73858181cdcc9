"""Repairing by REST: the operator's verbs, and replays of many by filter."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from homing.app import Homing
from homing.content.characters import check_label
from homing.domain.errors import InvalidRequest, NotFound, Overloaded
from homing.engine.admission import Request
from homing.engine.desk import Desk
from homing.engine.parking import KNOWN_WITHIN_S
from homing.ports import Facet, Query
from homing.web.answers import json_answer
from homing.web.calls import Call, Endpoint
from homing.web.intake import Intake, email_of, takes_emails
from homing.web.listing import Listing, id_of
from homing.web.problems import BadRequest
from homing.web.schemas import (
    AmendIn,
    ConfirmIn,
    CycleVerbIn,
    ParkedOut,
    ReplayFilter,
    ReplayIn,
    ReplaysIn,
    ReplaysOut,
    VerbIn,
)

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
            who = _who(call, given.actor, given.reason)
            done = await self._do(verb, id_of(call), given, who)
            return json_answer(done, 201 if verb == "resend" else 200)

        return act

    async def _do(self, verb: str, delivery_id: str, given: VerbIn, who: dict[str, str]) -> object:
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
            await desk.annotate(delivery_id, actor=who["actor"], note=who["reason"])
            return self._listing.view(await desk.show(delivery_id))
        if isinstance(given, AmendIn):
            more |= await self._amended(desk, delivery_id, given)
        return self._listing.view(await getattr(desk, verb)(delivery_id, **who, **more))

    async def _amended(self, desk: Desk, delivery_id: str, given: AmendIn) -> dict[str, Any]:
        """The corrected e-mail, checked and frozen as if it were new."""
        delivery = await desk.show(delivery_id)
        engine = self._homing.engine
        route = engine.routes.get(delivery.route)
        if route is None or not takes_emails(route):
            raise BadRequest("its route takes no e-mails", "email", 409)
        request = Request(message=email_of(given.email), key=delivery.key)
        try:
            new = engine.admission.prepare(route, request)
        except InvalidRequest as error:
            raise type(error)(f"email.{error.field}", error.problem) from error
        return {
            "payload": new.payload,
            "addresses": tuple(recipient.address for recipient in new.delivery.recipients),
        }

    async def park(self, call: Call) -> Response:
        return await self._set_parked(call, parked=True)

    async def unpark(self, call: Call) -> Response:
        return await self._set_parked(call, parked=False)

    async def _set_parked(self, call: Call, *, parked: bool) -> Response:
        given = await self._intake.read(call, VerbIn, MAX_VERB_BYTES)
        who = _who(call, given.actor, given.reason)
        route = str(call.path_params["route"])
        desk = self._homing.desk
        under_way = 0
        if parked:
            under_way = await desk.park(route, **who)
        else:
            await desk.unpark(route, **who)
        return json_answer(ParkedOut(route, parked, KNOWN_WITHIN_S, under_way))

    async def replay_many(self, call: Call) -> Response:
        given = await self._intake.read(call, ReplaysIn, MAX_VERB_BYTES)
        who = _who(call, given.actor, given.reason)
        query = _query(given.filter)
        replays = self._homing.replays
        if given.dry_run:
            matched = await replays.matching(query)
            return json_answer(ReplaysOut(None, matched, 0, "dry_run", None))
        try:
            progress = await replays.start(
                query, per_second=given.per_second, limit=given.limit, **who
            )
        except Overloaded:
            raise BadRequest(
                "too many replays are running; wait for one to end", None, 429
            ) from None
        started = ReplaysOut(progress.replay_id, progress.matched, 0, "running", None)
        return json_answer(started, 202)

    async def show_replay(self, call: Call) -> Response:
        replay_id = str(call.path_params["replay_id"])
        progress = await self._homing.replays.show(replay_id)
        if progress.replay_id != replay_id:
            raise NotFound("there is no replay with exactly this id")
        return json_answer(
            ReplaysOut(
                replay_id,
                progress.matched,
                progress.replayed,
                progress.state,
                progress.stopped_because,
            )
        )


def _who(call: Call, actor: str, reason: str) -> dict[str, str]:
    """Both are shown to people later: one line each, without invisible or direction characters."""
    for field, text in (("actor", actor), ("reason", reason)):
        check_label(text, field)
        if not text.strip():
            raise BadRequest("must not be blank", field, 422)
    return {"actor": call.signed(actor), "reason": reason}


def _query(given: ReplayFilter) -> Query:
    first, last = given.from_created_at_ms, given.to_created_at_ms
    if first is not None and last is not None and first > last:
        raise BadRequest("is after to_created_at_ms", "filter.from_created_at_ms", 422)
    return Query(
        route=given.route,
        source=given.source,
        error_class=given.error_class,
        topic=given.template_id,
        created_from_ms=first,
        created_before_ms=last,
        facets=(Facet(state="failed", failed_because=given.failed_because),),
    )
