"""One object per measurement, the median of its rounds."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field, to_builtins

from benchmarks.harness import Record
from benchmarks.measures import BY_NAME
from benchmarks.registry import OURS

LATEST = Path(__file__).parent / "results/latest.json"


class Measurement(Struct, frozen=True, kw_only=True):
    """`name` is the measure, for a peer behind its own name; no value: it did not run."""

    name: str
    store: str
    value: float | None
    unit: str
    config: dict[str, object] = field(default_factory=dict)


class Figure(Struct, frozen=True, kw_only=True):
    """What a contestant reached in one measure, or why there is nothing."""

    contestant: str
    store: str
    measure: str
    samples: tuple[float, ...] = ()
    config: dict[str, object] = field(default_factory=dict)
    failed: str | None = None

    @property
    def value(self) -> float | None:
        return statistics.median(self.samples) if self.samples else None

    def as_measurement(self) -> Measurement:
        ours = self.contestant == OURS
        notes: dict[str, object] = {"samples": [_short(sample) for sample in self.samples]}
        if self.failed:
            notes = {"did_not_run": self.failed}
        return Measurement(
            name=self.measure if ours else f"{self.contestant}.{self.measure}",
            store=self.store,
            value=None if self.value is None else _short(self.value),
            unit=BY_NAME[self.measure].unit,
            config=self.config | notes,
        )


def figures(records: Sequence[Record], wanted: Sequence[str]) -> list[Figure]:
    """A contestant without a call for a measure has no figure in it; one that failed has."""
    return [
        Figure(
            contestant=record.contestant.name,
            store=record.contestant.store,
            measure=measure,
            samples=tuple(record.samples.get(measure, ())),
            config=record.config,
            failed=record.failed,
        )
        for record in records
        for measure in record.contestant.measures
        if measure in wanted and (record.failed or measure in record.samples)
    ]


def write(found: Sequence[Figure], path: Path = LATEST) -> None:
    path.parent.mkdir(exist_ok=True)
    measurements = [to_builtins(figure.as_measurement()) for figure in found]
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in measurements)
    path.write_text(f"[\n{lines}\n]\n")


def _short(value: float) -> float:
    return round(value, 3 if abs(value) < 100 else 0)
