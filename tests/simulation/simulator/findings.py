"""What a run found: the breaches of invariants, and the figures of its last line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct, field

MOST_BREACHES = 10


class Breach(Struct, frozen=True):
    """One invariant that did not hold, about whom, and when."""

    invariant: str
    subject: str
    text: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at_s:.3f} s, {self.subject}: {self.text}"


class Findings:
    """Collects breaches; after some the run is stopped, since what follows is mostly echo."""

    def __init__(self, now_s: Callable[[], float], stop: Callable[[], None]) -> None:
        self._now_s = now_s
        self._stop = stop
        self.breaches: list[Breach] = []

    @property
    def is_full(self) -> bool:
        return len(self.breaches) >= MOST_BREACHES

    def breach(self, invariant: str, subject: str, text: str) -> None:
        if not self.is_full:
            self.breaches.append(Breach(invariant, subject, text, self._now_s()))
        if self.is_full:
            self._stop()


class Result(Struct, kw_only=True):
    """One seed's figures."""

    seed: int
    options: str
    deliveries: int = 0
    duplicates: int = 0
    unexplained: int = 0
    lost: int = 0
    virtual_s: float = 0.0
    steps: int = 0
    digest: str = ""
    faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    breaches: list[Breach] = field(default_factory=list)
    story: list[str] = field(default_factory=list)


def last_line(results: Sequence[Result]) -> str:
    return (
        f"seeds={len(results)}"
        f" deliveries={sum(r.deliveries for r in results)}"
        f" faults={sum(r.faults.total() for r in results)}"
        f" duplicates={sum(r.duplicates for r in results)}"
        f" unexplained={sum(r.unexplained for r in results)}"
        f" lost={sum(r.lost for r in results)}"
        f" violations={sum(len(r.breaches) for r in results)}"
    )


def tables(results: Sequence[Result]) -> list[str]:
    """Which faults there were, how the deliveries ended, and what the runs came to see."""
    faults: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for result in results:
        faults += result.faults
        ends += result.ends
        reached += result.reached
    return [
        f"{name}: {' '.join(f'{word}={number}' for word, number in sorted(counted.items()))}"
        for name, counted in (("faults", faults), ("ends", ends), ("reached", reached))
    ]
