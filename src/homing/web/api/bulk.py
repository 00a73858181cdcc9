"""Repairing many by REST: a verb on all that a filter chooses, in the background or only tried."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from homing.domain.errors import NotFound, Overloaded
from homing.engine.ops.bulk import BulkActions, BulkProgress, Prediction
from homing.engine.ops.delivery_filter import DeliveryFilter
from homing.engine.ops.verbs import BULK, BulkVerb
from homing.runtime.app import Homing
from homing.web.access.seen import bulk_for
from homing.web.api.intake import Intake
from homing.web.api.listing import Listing, named_refusals
from homing.web.api.schemas import BulkIn, BulkOut, BulkPreview, VerbIn
from homing.web.api.verbs import MAX_VERB_BYTES, who
from homing.web.http.answers import json_answer
from homing.web.http.calls import Call, Endpoint
from homing.web.http.problems import BadRequest

# How many deliveries a dry run describes one by one.
MAX_PREVIEW = 100


class Bulk:
    def __init__(self, homing: Homing, listing: Listing, intake: Intake) -> None:
        self._homing = homing
        self._listing = listing
        self._intake = intake

    def start(self, verb: BulkVerb) -> Endpoint:
        """202: it runs. 200: it was a dry run."""

        async def act(call: Call) -> Response:
            given = await self._intake.read(call, BulkIn, MAX_VERB_BYTES)
            return json_answer(await self.use(call, verb, given), 200 if given.dry_run else 202)

        return act

    async def use(
        self, call: Call, verb: BulkVerb, given: BulkIn, *, bounded: bool = False
    ) -> BulkOut:
        """Begin, or with `dry_run` only say what would happen; `bounded`, large numbers are not
        exact."""
        signed = who(call, given.actor, given.reason)
        chosen = _chosen(given)
        bulk = bulk_for(call.let_in, self._homing)
        with named_refusals("filter.", 422):
            if given.dry_run:
                return await self._tried(bulk, verb, chosen, given, bounded=bounded)
            try:
                progress = await bulk.start(
                    verb,
                    chosen,
                    everything=given.everything,
                    per_second=given.per_second or BULK[verb].per_second,
                    limit=given.limit,
                    **signed,
                )
            except Overloaded as error:
                raise BadRequest(f"{error}; wait for one to end", None, 429) from None
        return _shown(progress)

    def show(self, verb: BulkVerb) -> Endpoint:
        async def act(call: Call) -> Response:
            return json_answer(_shown(await self._found(verb, call)))

        return act

    def stop(self, verb: BulkVerb) -> Endpoint:
        """What is done stays done."""

        async def act(call: Call) -> Response:
            given = await self._intake.read(call, VerbIn, MAX_VERB_BYTES)
            signed = who(call, given.actor, given.reason)
            progress = await self._found(verb, call)
            await bulk_for(call.let_in, self._homing).stop(progress.bulk_id, **signed)
            return json_answer(_shown(progress))

        return act

    async def _found(self, verb: BulkVerb, call: Call) -> BulkProgress:
        bulk = bulk_for(call.let_in, self._homing)
        progress = await bulk.show(str(call.path_params["bulk_id"]))
        if progress.verb != verb:
            raise NotFound(f"it is a bulk {progress.verb}")
        return progress

    async def _tried(
        self,
        bulk: BulkActions,
        verb: BulkVerb,
        chosen: DeliveryFilter,
        given: BulkIn,
        *,
        bounded: bool,
    ) -> BulkOut:
        everything = given.everything
        matched = await bulk.count(verb, chosen, everything=everything, bounded=bounded)
        most = min(given.limit or MAX_PREVIEW, MAX_PREVIEW, matched)
        preview = [
            BulkPreview(
                delivery_id=each.delivery.id,
                status=self._listing.word(each.delivery),
                becomes=self._becomes(each),
                refused_because=each.refused_because,
            )
            async for each in bulk.predict(verb, chosen, everything=everything, limit=most)
        ]
        return BulkOut(
            verb=verb,
            matched=matched,
            state="dry_run",
            uncertain_left_out=await bulk.count_left_out(verb, chosen, bounded=bounded),
            preview=preview,
        )

    def _becomes(self, each: Prediction) -> str | None:
        if each.is_cancelled:
            return "cancelled"
        return None if each.after is None else self._listing.word(each.after)


def _chosen(given: BulkIn) -> DeliveryFilter:
    chosen = given.filter or DeliveryFilter()
    if given.everything and chosen != DeliveryFilter():
        raise BadRequest("cannot be combined with a filter", "all", 422)
    if not given.everything and chosen == DeliveryFilter():
        raise BadRequest('has no condition; for everything, send "all": true', "filter", 422)
    return chosen


def _shown(progress: BulkProgress) -> BulkOut:
    return BulkOut(**msgspec.structs.asdict(progress))
