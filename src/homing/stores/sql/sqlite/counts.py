"""How many deliveries there are by route, queue and state, and of those that failed by error class
and reason, kept in the commit of each change.

Triggers would do the same row by row; they cost a third of the whole way of a delivery. Here the
changes of a commit are added up first.
"""

from __future__ import annotations

from homing.domain.delivery import Delivery
from homing.stores.sql.columns import Row
from homing.stores.sql.planning import Plan

OPEN = "open"
"""Stands for pending, in flight and waiting together."""
_COUNTED_AS = {"pending": OPEN, "in_flight": OPEN, "waiting": OPEN}
_NO_KIND = ("", "")


class Counts:
    """By how much the numbers change in one transaction."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, ...], int] = {}

    def __bool__(self) -> bool:
        return bool(self._changes)

    def add(self, delivery: Delivery, number: int = 1) -> None:
        state = delivery.state
        place: tuple[str, ...] = delivery.route, delivery.queue, _COUNTED_AS.get(state, state)
        if state == "failed":
            place += _kind(delivery)
        self._changes[place] = self._changes.get(place, 0) + number

    def move(self, before: Delivery, after: Delivery) -> None:
        if (
            before.state != after.state
            or before.queue != after.queue
            or before.route != after.route
            or (after.state == "failed" and _kind(before) != _kind(after))
        ):
            self.add(before, -1)
            self.add(after)

    def add_plan(self, plan: Plan) -> None:
        """Its new and changed deliveries."""
        for effect in plan.new:
            if effect.after is not None:
                self.add(effect.after)
        for one in plan.changed:
            self.move(one.before, one.after)

    def rows(self) -> list[Row]:
        """In the order of the columns of `put_counts`."""
        return [
            (*place, *(() if len(place) > len(_NO_KIND) + 1 else _NO_KIND), number)
            for place, number in sorted(self._changes.items())
            if number
        ]


def _kind(delivery: Delivery) -> tuple[str, str]:
    """In which way a dead letter has failed."""
    failure = delivery.failure
    return "" if failure is None else failure.error_class, delivery.failed_because or ""
