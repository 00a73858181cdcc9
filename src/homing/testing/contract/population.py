"""A mixed lot of deliveries, and in plain predicates what each filter and group means."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from homing.domain.delivery import Delivery, New, Recipient
from homing.domain.failure import Failure
from homing.ports import Facet, GroupBy
from homing.testing import samples
from homing.testing.samples import NOW_MS

# Like patterns of SQL, Redis or a shell, and quotes; all of them are plain text here.
ODD = ("a%", "a_", "a*", "a", "A", "a'b", 'a"b', "a\\b", "", "ab")

FACETS: tuple[tuple[Facet, ...], ...] = (
    (),
    (Facet(state="pending"),),
    (Facet(state="pending", attempted=False),),
    (Facet(state="pending", attempted=True, stage="send"),),
    (Facet(state="failed", failed_because="exhausted"),),
    (Facet(state="failed", failed_because="uncertain"), Facet(state="in_flight", stage="render")),
    (Facet(state="pending"), Facet(state="pending", attempted=True)),
    (Facet(state="pending", phase="inline"), Facet(state="in_flight", phase="worker")),
    (Facet(state="pending", except_routes=("jobs", "none")), Facet(state="failed", route="jobs")),
)

CONDITIONS: dict[str, tuple[tuple[Any, ...], Callable[[Delivery, Any], bool]]] = {
    "route": (("mail", "jobs", "none"), lambda d, v: d.route == v),
    "source": (ODD, lambda d, v: d.source == v),
    "key": (ODD, lambda d, v: d.key == v),
    "topic": (ODD, lambda d, v: d.topic == v),
    "recipient": (ODD, lambda d, v: v in [r.address for r in d.recipients]),
    "error_class": (
        ("timed_out", "a_b", ""),
        lambda d, v: d.failure is not None and d.failure.error_class == v,
    ),
    "parent_id": (("p1", "p2", "none"), lambda d, v: d.parent_id == v),
    "clone_of": (("c1", "none"), lambda d, v: d.clone_of == v),
    "holder": (("w1", "w2", "none"), lambda d, v: d.holder == v),
    "notices_due": ((True, False), lambda d, v: (len(d.notices_due) > 0) == v),
    "top_only": ((True, False), lambda d, v: not v or d.parent_id is None),
    "facets": (
        FACETS,
        lambda d, v: any(
            d.state == f.state
            and (f.route is None or d.route == f.route)
            and d.route not in f.except_routes
            and (f.stage is None or d.stage == f.stage)
            and (f.attempted is None or (d.attempts_spent > 0) == f.attempted)
            and (f.failed_because is None or d.failed_because == f.failed_because)
            and (f.phase is None or d.phase == f.phase)
            for f in v
        ),
    ),
    "created_from_ms": ((NOW_MS, NOW_MS + 2, NOW_MS + 99), lambda d, v: d.created_at_ms >= v),
    "created_before_ms": ((NOW_MS, NOW_MS + 2, NOW_MS + 99), lambda d, v: d.created_at_ms < v),
    "updated_from_ms": ((NOW_MS, NOW_MS + 2, NOW_MS + 99), lambda d, v: d.updated_at_ms >= v),
}

GROUPS: dict[GroupBy, Callable[[Delivery], str]] = {
    "route": lambda d: d.route,
    "state": lambda d: d.state,
    "failed_because": lambda d: d.failed_because or "",
    "error_class": lambda d: d.failure.error_class if d.failure else "",
    "stage": lambda d: d.stage,
    "required": lambda d: {True: "true", False: "false"}[d.required],
    "queue": lambda d: d.queue,
    "source": lambda d: d.source,
}


def population(size: int = 150) -> list[New]:
    """A mixed lot, the same each time."""
    rng = random.Random(25)  # noqa: S311 - a lot drawn for tests
    return [_one(rng, number) for number in range(size)]


def _one(rng: random.Random, number: int) -> New:
    pick = rng.choice
    state = pick(("pending", "pending", "in_flight", "failed", "delivered", "dismissed"))
    has_failed = state == "failed" or rng.random() < 0.3
    return samples.new(
        f"d{number:03}",
        route=pick(("mail", "jobs")),
        queue=pick(("x", "y")),
        stage=pick(("render", "send")),
        source=pick(ODD),
        key=pick((None, *ODD)),
        topic=pick((None, *ODD)),
        recipients=tuple(Recipient(name) for name in rng.sample(ODD, rng.randrange(4))),
        failure=Failure(pick(("timed_out", "a_b", "axb", ""))) if has_failed else None,
        failed_because=pick(("exhausted", "uncertain")) if state == "failed" else None,
        state=state,
        attempts_spent=pick((0, 0, 1, 5)),
        phase=pick(("inline", "worker")),
        parent_id=pick((None, "p1", "p2")),
        clone_of=pick((None, "c1")),
        holder=pick(("w1", "w2")) if state == "in_flight" else None,
        notices_due=pick(((), (), ("alert",), ("alert", "log"))),
        required=pick((True, True, False)),
        created_at_ms=NOW_MS + rng.randrange(5),
        updated_at_ms=NOW_MS + rng.randrange(5),
    )


def expected(lot: list[New], conditions: dict[str, Any]) -> list[Delivery]:
    found = [
        new.delivery
        for new in lot
        if all(CONDITIONS[name][1](new.delivery, value) for name, value in conditions.items())
    ]
    return sorted(found, key=lambda d: (d.created_at_ms, d.id), reverse=True)
