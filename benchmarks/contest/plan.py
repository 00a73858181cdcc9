"""What the harness asks of a contestant, and what the contestant answers.

The question travels in one environment variable, so that worker processes which a contestant
starts through its own command line inherit it; the answer is one line of JSON on stdout.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

VARIABLE = "BENCHMARK_PLAN"
PAYLOAD = "x" * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much to measure, and where the servers are.

    `folder` is on a disk, for the store; `counts` is in memory where there is such a place, so
    that counting waits for no disk.
    """

    folder: str
    counts: str
    measures: tuple[str, ...]
    servers: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    budget_s: float = 1.5
    callers: int = 64
    drain_s: float = 20.0
    snapshot_s: float = 60.0
    latency_s: float = 6.0
    rate_per_s: float = 50.0
    mails: int = 5_000
    rows: tuple[int, ...] = (1_000, 1_000_000)
    kills: int = 20
    idle_s: float = 20.0
    seeds: str = "0-19"

    @property
    def data(self) -> Path:
        return Path(self.folder)

    @property
    def tallies(self) -> Path:
        return Path(self.counts)

    def wants(self, *measures: str) -> bool:
        return not set(measures).isdisjoint(self.measures)

    def as_environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> "Plan":
        known: dict[str, Any] = json.loads(os.environ[VARIABLE])
        for name in ("measures", "rows"):
            known[name] = tuple(known[name])
        return cls(**known)


def report(values: Mapping[str, float], config: Mapping[str, object]) -> None:
    """Answer the harness: a measure that is missing is one the contestant has no call for."""
    print(json.dumps({"values": dict(values), "config": dict(config)}), flush=True)
