"""What one seed means: who takes part, what is delivered, and which faults are switched on.

Swarm testing: each seed switches on a random subset of the faults, at random rates, so that no
fault hides another; some seeds have one family alone, and some have none.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

from msgspec import Struct, structs

from tests.simulation.simulator.route_kinds import ROUTE_KINDS

Family: TypeAlias = Literal[
    "store", "full", "crash", "freeze", "deploy", "clock", "answers", "doubt", "outage", "handler",
    "operator", "notice", "provider", "pause",
]  # fmt: skip
StoreName: TypeAlias = Literal["memory", "sqlite"]
FAMILIES: tuple[Family, ...] = get_args(Family)

DELIVERIES = 3000
SQLITE_SHARE = 0.25


class Options(Struct, frozen=True, kw_only=True):
    """Rates are shares of calls; plain numbers are events in the whole run; times are virtual."""

    seed: int
    deliveries: int
    families: tuple[Family, ...]
    routes: tuple[str, ...]
    window_s: float
    workers: int
    senders: int
    machines: int
    concurrency: int
    store: StoreName = "memory"
    # Whether the processes of one machine can prove each other's death.
    locks: bool = False

    delay_share: float
    delay_s: float
    store_refused: float = 0.0
    store_unknown: float = 0.0
    store_unknown_lost: float = 0.0
    store_surprise: float = 0.0
    full_periods: int = 0
    crashes: int = 0
    poison: int = 0
    freezes: int = 0
    deploys: int = 0
    jumps: int = 0

    answer_share: float
    answer_s: float
    deferred: float = 0.0
    always_deferred: float = 0.0
    retry_after: float = 0.0
    retry_after_absurd: float = 0.0
    rejected: float = 0.0
    suppressed: float = 0.0
    partial: float = 0.0
    cut_after: float = 0.0
    cut_before: float = 0.0
    hung: float = 0.0
    prepare_raised: float = 0.0
    prepare_garbage: float = 0.0
    start_raised: float = 0.0
    answer_none: float = 0.0
    answer_garbage: float = 0.0
    outages: int = 0
    pauses: int = 0
    handler_failed: float = 0.0
    handler_useless: float = 0.0
    handler_hung: float = 0.0
    clicks: int = 0
    notice_refused: float = 0.0

    def __str__(self) -> str:
        shown = []
        for name, value in structs.asdict(self).items():
            if value or name == "seed":
                text = f"{value:.3g}" if isinstance(value, float) else value
                shown.append(f"{name}={','.join(value) if isinstance(value, tuple) else text}")
        return " ".join(shown)

    def has(self, *families: Family) -> bool:
        return any(family in self.families for family in families)


class Focus(Struct, frozen=True):
    """What whoever runs the simulator wants to look at; what is left empty is drawn."""

    deliveries: int | None = None
    families: tuple[Family, ...] = ()
    routes: tuple[str, ...] = ()
    store: StoreName | None = None


EVERYTHING = Focus()


def draw(seed: int, focus: Focus = EVERYTHING) -> Options:
    """The same seed gives the same options, everywhere."""
    rng = random.Random(f"options {seed}")
    families = _families(rng)
    families = focus.families or families
    number = focus.deliveries or round(DELIVERIES * rng.uniform(0.6, 1.4))
    routes = tuple(rng.sample(sorted(ROUTE_KINDS), rng.randint(2, 3)))
    busy = rng.random() < 0.5
    fields: dict[str, object] = {
        "seed": seed,
        "deliveries": number,
        "families": families,
        "routes": focus.routes or routes,
        "window_s": rng.uniform(30.0, 150.0),
        "workers": rng.randint(1, 3),
        "senders": rng.randint(0, 1),
        "machines": rng.randint(1, 2),
        "concurrency": rng.choice((2, 4, 8, 64, 128)),
        "delay_share": _rate(rng, 0.02, 0.5) if busy else 0.02,
        "delay_s": rng.choice((0.001, 0.02, 0.5)),
        "answer_share": _rate(rng, 0.02, 0.6),
        "answer_s": rng.choice((0.01, 0.3, 2.0)),
    }
    if rng.random() < 0.2:
        # Slow, but not slow enough to keep workers from reading ahead: long queues in hand.
        fields |= {"answer_share": 0.9, "answer_s": 3.2, "concurrency": 2}
    fields["store"] = focus.store or ("sqlite" if rng.random() < SQLITE_SHARE else "memory")
    fields["locks"] = rng.random() < 0.6
    for family in families:
        fields |= _RATES[family](rng)
    return Options(**fields)  # type: ignore[arg-type] # drawn as a table


def _families(rng: random.Random) -> tuple[Family, ...]:
    kind = rng.random()
    if kind < 0.1:
        chosen: set[Family] = {"operator", "deploy"}
    elif kind < 0.4:
        chosen = set(rng.sample(FAMILIES, rng.randint(1, 3)))
    else:
        chosen = {family for family in FAMILIES if rng.random() < 0.5}
    return tuple(family for family in FAMILIES if family in chosen)


def _rate(rng: random.Random, low: float, high: float) -> float:
    """Small rates as likely as large ones."""
    return float(low * (high / low) ** rng.random())


def _some(rng: random.Random, low: float, high: float) -> float:
    """Off half of the time, so that one fault of a family may act alone."""
    return _rate(rng, low, high) if rng.random() < 0.6 else 0.0


_RATES: dict[Family, Callable[[random.Random], dict[str, object]]] = {
    "store": lambda c: {
        "store_refused": _some(c, 0.005, 0.2),
        "store_unknown": _some(c, 0.005, 0.15),
        "store_unknown_lost": _some(c, 0.005, 0.15),
        "store_surprise": _some(c, 0.001, 0.01),
    },
    "full": lambda c: {"full_periods": c.randint(1, 2)},
    "crash": lambda c: {"crashes": c.randint(2, 10), "poison": c.randint(0, 2)},
    "freeze": lambda c: {"freezes": c.randint(1, 5)},
    "deploy": lambda c: {"deploys": c.randint(1, 4)},
    "clock": lambda c: {"jumps": c.randint(1, 6)},
    "answers": lambda c: {
        "deferred": _rate(c, 0.02, 0.4),
        "always_deferred": _some(c, 0.01, 0.05),
        "retry_after": _some(c, 0.02, 0.1),
        "retry_after_absurd": _some(c, 0.001, 0.01),
        "rejected": _some(c, 0.005, 0.1),
        "suppressed": _some(c, 0.005, 0.05),
        "partial": _some(c, 0.05, 0.5),
    },
    "doubt": lambda c: {
        "cut_after": _some(c, 0.01, 0.4),
        "cut_before": _some(c, 0.01, 0.4),
        "hung": _some(c, 0.005, 0.05),
        "partial": _some(c, 0.05, 0.5),
    },
    "outage": lambda c: {"outages": c.randint(1, 2)},
    "handler": lambda c: {
        "handler_failed": _rate(c, 0.02, 0.5),
        "handler_useless": _some(c, 0.005, 0.1),
        "handler_hung": _some(c, 0.002, 0.02),
    },
    "operator": lambda c: {"clicks": c.randint(5, 60)},
    "provider": lambda c: {
        "prepare_raised": _some(c, 0.005, 0.05),
        "prepare_garbage": _some(c, 0.005, 0.05),
        "start_raised": _some(c, 0.005, 0.1),
        "answer_none": _some(c, 0.002, 0.02),
        "answer_garbage": _some(c, 0.002, 0.02),
    },
    "pause": lambda c: {"pauses": c.randint(1, 3)},
    "notice": lambda c: {"notice_refused": _rate(c, 0.05, 0.7)},
}
