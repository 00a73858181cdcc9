"""One verb on many deliveries: what it would do, then its progress, with a way to stop it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct
from starlette.responses import Response

from homing.domain.delivery import Delivery
from homing.domain.errors import NotAllowed, NotFound
from homing.engine.ops.bounded import COUNT_UP_TO
from homing.engine.ops.delivery_filter import FILTERS, DeliveryFilter, filter_from
from homing.engine.ops.verbs import BULK, BULK_VERBS, VERBS, BulkVerb
from homing.web.api.bulk import Bulk
from homing.web.api.listing import Listing, conditions, named_refusals
from homing.web.api.schemas import VERB_BODIES, BulkIn
from homing.web.api.verbs import Verbs
from homing.web.console.deliveries import PAGE, Deliveries, Row
from homing.web.console.rendering import Rendering
from homing.web.console.visits import Form, Page, Visit
from homing.web.http.calls import pairs_of, parsed
from homing.web.http.problems import BadRequest

# How many of those that match are named before the act.
SHOWN = 20
# More than a page of rows can be chosen with.
MAX_FIELDS = 200
_FEW = re.compile(r"[0-9]{1,4}")


class Expected(Struct, frozen=True):
    """What the verb would do to one delivery that was chosen by its row."""

    row: Row
    becomes: str | None
    refused_because: str | None
    cycle: int


class BulkPages:
    def __init__(
        self,
        listing: Listing,
        verbs: Verbs,
        bulk: Bulk,
        deliveries: Deliveries,
        rendering: Rendering,
    ) -> None:
        self._listing = listing
        self._verbs = verbs
        self._bulk = bulk
        self._deliveries = deliveries
        self._rendering = rendering

    def pages(self) -> Iterable[Page]:
        return (
            Page("GET", "/bulk", "read", self.preview),
            Page("POST", "/bulk", "operate", self.start),
            Page("GET", "/bulk/chosen", "read", self.chosen),
            Page("GET", "/bulk/{bulk_id}", "read", self.progress),
            Page("POST", "/bulk/{bulk_id}/stop", "operate", self.stop),
        )

    async def preview(self, visit: Visit) -> Response:
        """What the verb would do; nothing is changed."""
        fields, ids = _asked(visit)
        verb = _verb(fields)
        given = conditions(fields)
        if "matching" not in fields:
            if not ids:
                raise BadRequest("choose deliveries first, or all that match", "id", 422)
            return await self._preview_chosen(visit, verb, ids, given)
        wish = _wish(visit.person, "dry run", given, dry_run=True)
        tried = await self._bulk.use(visit.call, verb, wish, bounded=True)
        becomes = Counter(each.becomes or "refused" for each in tried.preview)
        shown = [each.delivery_id for each in tried.preview[:SHOWN]]
        return self._rendering.page(
            visit,
            "bulk_preview.html",
            place="deliveries",
            verb=verb,
            effect=BULK[verb].effect,
            past=BULK[verb].past,
            filter=given,
            back=urlencode(given),
            tried=tried,
            most=COUNT_UP_TO,
            rows=await self._deliveries.rows(visit, await visit.ops.show_many(shown)),
            becomes=becomes.most_common(),
            expected=[],
            per_second=BULK[verb].per_second,
        )

    async def _preview_chosen(
        self, visit: Visit, verb: BulkVerb, ids: Sequence[str], given: Mapping[str, str]
    ) -> Response:
        expected = [
            await self._expected(visit, verb, each)
            for each in await visit.ops.show_many(ids[:PAGE])
        ]
        return self._rendering.page(
            visit,
            "bulk_preview.html",
            place="deliveries",
            verb=verb,
            effect=BULK[verb].effect,
            past=BULK[verb].past,
            filter=given,
            back=urlencode(given),
            tried=None,
            rows=[],
            becomes=Counter(each.becomes or "refused" for each in expected).most_common(),
            expected=expected,
            per_second=None,
        )

    async def _expected(self, visit: Visit, verb: BulkVerb, delivery: Delivery) -> Expected:
        [row] = await self._deliveries.rows(visit, [delivery])
        becomes: str | None = None
        refused: str | None = None
        try:
            after = visit.ops.predict(verb, delivery)
            becomes = self._listing.word(after)
        except (NotAllowed, NotFound) as error:
            refused = str(error)
        return Expected(row, becomes, refused, delivery.cycle)

    async def start(self, visit: Visit) -> Response:
        form = await visit.form()
        verb = _verb({"verb": form.get("verb")})
        given = _filter_in(form.get("filter"))
        back = urlencode(given)
        if form.every("id"):
            return await self._use_on_chosen(visit, verb, form, back)
        if not form.every("filter"):  # an empty one selects everything
            raise BadRequest("is required", "filter", 422)
        wish = _wish(
            visit.person, form.get("reason").strip(), given, per_second=form.get("per_second")
        )
        started = await self._bulk.use(visit.call, verb, wish)
        return visit.see("bulk", started.bulk_id or "", back=back)

    async def _use_on_chosen(self, visit: Visit, verb: BulkVerb, form: Form, back: str) -> Response:
        """One after the other, each as it was seen: what others have changed since is left out."""
        done, refused = [], []
        cycles = form.every("cycle")
        for number, delivery_id in enumerate(form.every("id")[:PAGE]):
            body: dict[str, Any] = {"actor": visit.person, "reason": form.get("reason").strip()}
            if VERBS[verb].takes("cycle") and number < len(cycles):
                body["cycle"] = cycles[number]
            given = _convert(body, VERB_BODIES[verb])
            try:
                await self._verbs.use(visit.call, verb, delivery_id, given)
                done.append(delivery_id)
            except (NotAllowed, NotFound):
                refused.append(delivery_id)
        return visit.see("bulk", "chosen", verb=verb, id=done, refused=str(len(refused)), back=back)

    async def chosen(self, visit: Visit) -> Response:
        """What was done to the chosen rows, with the way back."""
        fields, ids = _asked(visit)
        verb = _verb(fields)
        refused = fields.get("refused", "0")
        before = _filter_in(fields.get("back", ""))
        return self._rendering.page(
            visit,
            "bulk_chosen.html",
            place="deliveries",
            verb=verb,
            past=BULK[verb].past,
            rows=await self._deliveries.rows(visit, await visit.ops.show_many(ids[:PAGE])),
            refused=int(refused) if _FEW.fullmatch(refused) else 0,
            back=urlencode(before),
            undone_by=VERBS[verb].undone_by,
        )

    async def progress(self, visit: Visit) -> Response:
        fields, _ = _asked(visit)
        before = _filter_in(fields.get("back", ""))
        progress = await visit.bulk.show(visit.param("bulk_id"))
        return self._rendering.page(
            visit,
            "bulk_progress.html",
            place="deliveries",
            progress=progress,
            past=BULK[progress.verb].past,
            back=urlencode(before),
            undone_by=VERBS[progress.verb].undone_by,
            undo=_undo(before),
        )

    async def stop(self, visit: Visit) -> Response:
        form = await visit.form()
        bulk_id = visit.param("bulk_id")
        await visit.bulk.stop(bulk_id, actor=visit.person, reason="stopped in the console")
        return visit.see("bulk", bulk_id, back=form.get("back"))


def _asked(visit: Visit) -> tuple[dict[str, str], list[str]]:
    """The query, in which `id` may stand several times."""
    pairs = pairs_of(visit.call.scope, MAX_FIELDS)
    ids = [value for name, value in pairs if name == "id"]
    return {name: value for name, value in pairs if name != "id" and value}, ids


def _filter_in(text: str) -> dict[str, str]:
    """The conditions in a query string, which is one field: a form has a `reason` of its own."""
    pairs = parsed(quote(text, safe="=&%+").encode(), "query", MAX_FIELDS)
    return {name: value for name, value in pairs if name in FILTERS}


def _undo(before: Mapping[str, str]) -> dict[str, str]:
    """The dismissed ones among what the filter chose; the words for why it failed are no more
    those of a delivery that was dismissed."""
    kept = {
        name: value for name, value in before.items() if name not in ("state", "status", "reason")
    }
    return {**kept, "state": "dismissed"}


def _verb(fields: Mapping[str, str]) -> BulkVerb:
    for verb in BULK_VERBS:
        if verb == fields.get("verb"):
            return verb
    raise BadRequest(f"must be one of {', '.join(BULK_VERBS)}", "verb", 422)


def _wish(
    person: str,
    reason: str,
    given: Mapping[str, str],
    *,
    dry_run: bool = False,
    per_second: str = "",
) -> BulkIn:
    body: dict[str, Any] = {"actor": person, "reason": reason, "dry_run": dry_run}
    with named_refusals():
        chosen = filter_from(given)
    if chosen == DeliveryFilter():
        body["all"] = True
    if per_second:
        body["per_second"] = per_second
    wish: BulkIn = _convert(body, BulkIn)
    return wish if wish.everything else msgspec.structs.replace(wish, filter=chosen)


def _convert(body: Mapping[str, Any], kind: Any) -> Any:
    try:
        return msgspec.convert(body, kind, strict=False)
    except msgspec.ValidationError:
        problem = "say why: the reason is kept in the history"
        if body.get("reason"):
            problem = "cannot be read"
        raise BadRequest(problem, "reason", 422) from None
