"""What operators read: deliveries, their attempts and history, and failures in groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from homing.domain.delivery import Attempt, Delivery, Fact, State
from homing.domain.errors import InvalidRequest, NotFound
from homing.engine.intake.request_checks import plain_text
from homing.engine.ops import masking
from homing.engine.ops.bounded import page_within
from homing.engine.ops.delivery_filter import DeliveryFilter, query_for
from homing.engine.ops.failure_groups import FailureGroup, failure_groups
from homing.engine.ops.search import SearchResult, former_ids, search
from homing.engine.ops.why import explain
from homing.engine.work.family import is_current, pages_of_children
from homing.engine.work.handler_names import handler_names
from homing.ports import Cursor, Facet, FactCursor, Page, Query

if TYPE_CHECKING:
    from homing.engine.process.liveness import Liveness
    from homing.engine.process.pausing import Pausing
    from homing.engine.process.process import Process
    from homing.engine.route import Route

T = TypeVar("T")

AUDIT = "audit"
MAX_SEARCH_CHARS = 500
APP_WORKER = "homing worker --app MODULE:NAME"
# Filters by which a caller could test whether an address is known.
_ADDRESSES = ("recipient", "key", "source")
_UNFINISHED: tuple[State, ...] = ("failed", "dismissed", "pending", "in_flight", "waiting")


class ProgramFacts(Struct):
    """What the program around the engine knows, by route: who owns a route that is not known
    here, and which command serves it; `as_stored` returns an address as recipients have it."""

    route_owners: dict[str, str] = field(default_factory=dict)
    worker_commands: dict[str, str] = field(default_factory=dict)
    as_stored: Callable[[str], str] = str


class Reader:
    """Reads deliveries. Everything it returns is masked for who does not see personal data."""

    def __init__(
        self,
        process: Process,
        pausing: Pausing,
        liveness: Liveness,
        routes: Mapping[str, Route],
    ) -> None:
        self._store = process.store
        self._clock = process.clock
        self._pausing = pausing
        self._liveness = liveness
        self._routes = routes
        self.program = ProgramFacts()
        self.sees_personal_data = True

    def _seen(self, record: T, masked: Callable[[T], T]) -> T:
        return record if self.sees_personal_data else masked(record)

    def _delivery(self, delivery: Delivery) -> Delivery:
        return self._seen(delivery, masking.masked_delivery)

    def _deliveries(self, found: Sequence[Delivery]) -> tuple[Delivery, ...]:
        return tuple(map(self._delivery, found))

    def _demand_personal_data(self, to: str, field: str | None = None) -> None:
        """PersonalDataHidden: the caller may not do that."""
        if not self.sees_personal_data:
            raise masking.PersonalDataHidden(to, field)

    async def show(self, delivery_id: str) -> Delivery:
        """The current delivery. NotFound: there is none with this id."""
        delivery = await self._store.get(delivery_id)
        if delivery is None:
            raise NotFound(f"no delivery {delivery_id}")
        return self._delivery(await self._with_children(delivery))

    async def list(
        self,
        chosen: DeliveryFilter | None = None,
        cursor: Cursor | None = None,
        limit: int = 50,
        *,
        bounded: bool = False,
    ) -> Page:
        """A page of the deliveries that match the filter, newest first.

        With `bounded`, a filter that matches few deliveries ends after many were read: the page is
        then short, and has a cursor to continue from.
        """
        query = await self._query(DeliveryFilter() if chosen is None else chosen)
        return await self._page(query, cursor, limit, bounded=bounded)

    async def _query(self, chosen: DeliveryFilter) -> Query:
        """What a filter means to the store. InvalidRequest names a condition that is wrong; it is
        PersonalDataHidden to ask for an address that one may not see."""
        given: object = chosen
        if not isinstance(given, DeliveryFilter):
            named = type(given).__name__
            raise InvalidRequest("filter", f"must be a DeliveryFilter, not {named}")
        for name in _ADDRESSES:
            text: str | None = getattr(chosen, name)
            if text is not None and (name == "recipient" or "@" in text):
                self._demand_personal_data("filter by address", name)
        query = query_for(chosen, self._routes, self.program.as_stored)
        await self.demand_route(chosen.route)
        return query

    async def demand_route(self, name: str | None) -> None:
        """Refuse a route that nothing is known of: an empty answer would be to another question."""
        if name is None or name in self._routes:
            return
        stored = {route for (route,) in await self._store.count(Query(), by=("route",))}
        if name not in stored:
            known = ", ".join(sorted({*self._routes, *stored}))
            raise InvalidRequest("route", f"must be one of {known}")

    async def _page(
        self, query: Query, cursor: Cursor | None = None, limit: int = 50, *, bounded: bool = False
    ) -> Page:
        """As `list`, by the query of a store."""
        if bounded:
            page = await page_within(self._store, query, cursor, limit)
        else:
            page = await self._store.page(query, cursor, limit)
        items = [await self._with_children(delivery) for delivery in page.items]
        return Page(self._deliveries(items), page.next, page.previous)

    async def _with_children(self, delivery: Delivery) -> Delivery:
        """As its label needs it: with the count of children that wait to be tried again."""
        route = self._routes.get(delivery.route)
        if delivery.state != "waiting" or route is None or not route.labels.sees_children:
            return delivery
        query = Query(parent_id=delivery.id, facets=(Facet(state="pending", attempted=True),))
        counts = await self._store.count(query)
        return replace(delivery, retrying_children=sum(counts.values()))

    async def attempts(self, delivery_id: str) -> Sequence[Attempt]:
        """The ended attempts, then the scheduled or running one."""
        found = [*await self._store.attempts(delivery_id)]
        delivery = await self._store.get(delivery_id)
        if delivery is None and not found:
            raise NotFound(f"no delivery {delivery_id}")
        found += () if delivery is None else _current(delivery)
        return [self._seen(each, masking.masked_attempt) for each in found]

    async def audit(self, delivery_id: str) -> Sequence[Fact]:
        """What operators did to a delivery, oldest first."""
        facts = await self._store.facts(AUDIT, f"{delivery_id}/")
        return [self._seen(fact, masking.masked_audit) for fact in facts]

    async def audit_log(self, after: Fact | None = None, limit: int = 50) -> Sequence[Fact]:
        """What operators did to deliveries, routes and access, newest first; `after` is the last
        one seen."""
        seen = None if after is None else FactCursor(after.key, after.at_ms)
        facts = await self._store.facts(AUDIT, limit=limit, after=seen, order="newest")
        return [self._seen(fact, masking.masked_audit) for fact in facts]

    def _paused(self, route: str) -> Fact | None:
        """Since when, by whom and why a route is paused; None: it is not."""
        fact = self._pausing.fact(route)
        return None if fact is None else self._seen(fact, masking.masked_pause)

    async def formerly_for(self, address: str, limit: int) -> Sequence[str]:
        """The ids of deliveries that were amended to go to others than this address."""
        self._demand_personal_data("search for addresses", "recipient")
        return await former_ids(self._store, self.program.as_stored(address), limit)

    async def unfinished_children(self, parent: Delivery) -> Sequence[Delivery]:
        """The first page of its current children that have failed or not ended yet."""
        if parent.fanned_out:
            async for page in pages_of_children(self._store, parent.id, _UNFINISHED):
                return self._deliveries([child for child in page if is_current(child, parent)])
        return ()

    async def failures(
        self, chosen: DeliveryFilter | None = None, limit: int = 50
    ) -> Sequence[FailureGroup]:
        """Dead letters grouped by route, error class and reason, the largest group first."""
        asked = DeliveryFilter() if chosen is None else chosen
        if asked.state not in (None, "failed"):
            raise InvalidRequest("state", "must be failed: only dead letters are grouped")
        query = await self._query(replace(asked, state="failed"))
        groups = await failure_groups(self._store, self._clock, query, limit)
        return [
            group if group.newest is None else replace(group, newest=self._delivery(group.newest))
            for group in groups
        ]

    async def search(self, text: str, limit: int = 50) -> SearchResult:
        """Deliveries by an id, a recipient, a key, or words of the error of a dead letter."""
        text = plain_text("text", text).strip()
        if not text:
            raise InvalidRequest("text", "must not be empty")
        if "@" in text:
            self._demand_personal_data("search for addresses", "text")
        address = self.program.as_stored(text) if self.sees_personal_data else None
        found = await search(self._store, text, address, limit)
        return replace(found, deliveries=self._deliveries(found.deliveries))

    async def explain(self, delivery_id: str) -> Sequence[str]:
        """What happened to a delivery, what comes next and when, in plain sentences."""
        delivery = await self.show(delivery_id)
        await self._pausing.refresh()
        await self._liveness.look_if_fresh()
        handlers = await handler_names(self._store, [delivery])
        is_served = self._liveness.is_served(delivery.queue)
        command = self.program.worker_commands.get(delivery.route, APP_WORKER)
        lines = explain(
            delivery,
            await self.attempts(delivery_id),
            self._routes.get(delivery.route),
            now_ms=self._clock.now_ms(),
            paused=self._paused(delivery.route),
            audit=await self.audit(delivery_id),
            children=await self.unfinished_children(delivery),
            handler=handlers.get(delivery.id),
            start_with=None if is_served else command,
        )
        if delivery.route not in self._routes:
            lines.append(f"Here it can only be read: {self.no_route(delivery.route)}.")
        return lines

    def no_route(self, name: str) -> str:
        """Why there is no such route here, and which program has it."""
        owner = self.program.route_owners.get(name)
        if owner:
            return f"there is no route {name!r}; it belongs to {owner}, which is not installed here"
        return (
            f"there is no route {name!r} here; there are {', '.join(sorted(self._routes))}."
            " If it is a job of an application, use that one's Homing (--app MODULE:NAME)"
        )


def _current(delivery: Delivery) -> Sequence[Attempt]:
    if delivery.state not in ("pending", "in_flight"):
        return ()
    running = delivery.state == "in_flight"
    attempt = Attempt(
        delivery_id=delivery.id,
        number=delivery.attempts_ended + 1,
        stage=delivery.stage,
        status="running" if running else "scheduled",
        cycle=delivery.cycle,
        phase=delivery.phase,
        scheduled_for_ms=None if running else delivery.due_at_ms,
        started_at_ms=delivery.claimed_at_ms,
        holder=delivery.holder,
    )
    return (attempt,)
