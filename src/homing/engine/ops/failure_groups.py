"""Dead letters grouped by their error: how many, since when, and the trend."""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import Delivery, Fact, FailedBecause
from homing.engine.ops.bounded import count_up_to
from homing.engine.process.counters import CAME_BACK, group_key
from homing.ports import Clock, Cursor, Facet, GroupBy, Query, Store

HOUR_MS = 3_600_000
BY: tuple[GroupBy, ...] = ("route", "error_class", "failed_because")
FROM_BELOW = Cursor(0, "", newer=True)
LOOK_AT = 50

Trend: TypeAlias = Literal["rising", "steady", "falling", "quiet"]


class FailureGroup(Struct, frozen=True, kw_only=True):
    """Dead letters with the same error, with the newest of them as an example.

    First and last seen are those of the oldest and the newest one. The error came back if a
    replayed delivery has failed with it again, and is still a dead letter.
    """

    route: str
    error_class: str
    failed_because: str
    count: int
    newest: Delivery | None = None
    first_seen_at_ms: int | None = None
    last_seen_at_ms: int | None = None
    last_hour: int = 0
    hour_before: int = 0
    came_back_at_ms: int | None = None
    came_back_delivery_id: str | None = None

    @property
    def trend(self) -> Trend:
        """The failures of the last hour compared with those of the hour before."""
        if not self.last_hour:
            return "quiet"
        if self.last_hour == self.hour_before:
            return "steady"
        return "rising" if self.last_hour > self.hour_before else "falling"


async def failure_groups(
    store: Store, clock: Clock, asked: Query, limit: int
) -> list[FailureGroup]:
    """The groups of the dead letters that are asked for, the largest first."""
    counts = await store.count(asked, by=BY)
    now_ms = clock.now_ms()
    last_hour = await count_up_to(store, replace(asked, updated_from_ms=now_ms - HOUR_MS), BY)
    two_hours = await count_up_to(store, replace(asked, updated_from_ms=now_ms - 2 * HOUR_MS), BY)
    back = {fact.key: fact for fact in await store.facts(CAME_BACK)}
    groups = []
    for words, count in sorted(counts.items(), key=_largest)[:limit]:
        route, error_class, because = words
        facet = Facet(state="failed", failed_because=cast(FailedBecause, because))
        one = replace(asked, route=route, error_class=error_class or None, facets=(facet,))
        newest = await _first(store, one, None)
        oldest = await _first(store, one, FROM_BELOW)
        returned = await _still_dead(store, back.get(group_key(*words)))
        groups.append(
            FailureGroup(
                route=route,
                error_class=error_class,
                failed_because=because,
                count=count,
                newest=newest,
                first_seen_at_ms=None if oldest is None else _first_failed(oldest, error_class),
                last_seen_at_ms=None if newest is None else _failed_at_ms(newest),
                last_hour=last_hour.get(words, 0),
                hour_before=two_hours.get(words, 0) - last_hour.get(words, 0),
                came_back_at_ms=None if returned is None else returned.at_ms,
                came_back_delivery_id=None
                if returned is None
                else str((returned.value or {}).get("delivery_id")),
            )
        )
    return groups


async def _first(store: Store, query: Query, cursor: Cursor | None) -> Delivery | None:
    """The newest, or with `FROM_BELOW` the oldest. For those without an error class no query can
    ask: if there are none among a few, it is not known."""
    if query.error_class is not None:
        return next(iter((await store.page(query, cursor, 1)).items), None)
    found = (await store.page(query, cursor, LOOK_AT)).items
    in_order = found if cursor is None else found[::-1]
    return next((each for each in in_order if each.failure is None), None)


async def _still_dead(store: Store, fact: Fact | None) -> Fact | None:
    if fact is None:
        return None
    delivery = await store.get(str((fact.value or {}).get("delivery_id")))
    return fact if delivery is not None and delivery.state == "failed" else None


def _first_failed(delivery: Delivery, error_class: str) -> int | None:
    """When it failed with this error for the first time, perhaps before a replay."""
    earlier = [
        cycle.failed_at_ms
        for cycle in delivery.failure_history
        if (cycle.error_class or "") == error_class and cycle.failed_at_ms is not None
    ]
    last_ms = _failed_at_ms(delivery)
    return min([*earlier, *([last_ms] if last_ms else [])], default=None)


def _failed_at_ms(delivery: Delivery) -> int | None:
    """One that was dismissed and restored has ended a second time, and has not failed again."""
    return delivery.last_failed_at_ms or delivery.ended_at_ms


def _largest(group: tuple[tuple[str, ...], int]) -> tuple[int, tuple[str, ...]]:
    names, count = group
    return -count, names
