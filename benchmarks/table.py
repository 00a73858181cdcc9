"""The table: ours first, the peers below it with the ratio, and the targets at the end."""

from collections.abc import Iterator, Sequence

from benchmarks.measures import BY_NAME, MEASURES, Measure
from benchmarks.registry import OURS
from benchmarks.results import Figure
from benchmarks.targets import TARGETS, Target


def lines(found: Sequence[Figure]) -> Iterator[str]:
    for measure in MEASURES:
        rows = [figure for figure in found if figure.measure == measure.name]
        if rows:
            yield f"{measure.title} ({measure.unit})"
            yield from _rows(measure, rows)
            yield ""
    yield "Targets"
    for target in TARGETS:
        store = f" ({target.store})" if target.store not in {"", "sqlite"} else ""
        name = f"{target.measure}{store}"
        yield f"  {name:<26} {target.says():<34} {verdict(target, found)}"
        yield f"  {'':<26} {target.why}"


def _rows(measure: Measure, rows: Sequence[Figure]) -> Iterator[str]:
    sign = -1 if measure.best == "most" else 1
    ours = [row for row in rows if row.contestant == OURS]
    peers = [row for row in rows if row.contestant != OURS]
    peers.sort(key=lambda row: sign * row.value if row.value is not None else float("inf"))
    for row in (*ours, *peers):
        label = f"  {row.contestant:<20} {row.store:<9}"
        if row.value is None:
            yield f"{label} did not run: {row.failed}"
        else:
            yield f"{label} {number(row.value):>12}{_ratio(measure, row, ours)}"


def _ratio(measure: Measure, row: Figure, ours: Sequence[Figure]) -> str:
    """How many times better ours is than this peer's: on the same store, if we have it."""
    values = {figure.store: figure.value for figure in reversed(ours) if figure.value}
    reference = values.get(row.store) or next(reversed(values.values()), None)
    if row.contestant == OURS or not reference or not row.value:
        return ""
    times = reference / row.value if measure.best == "most" else row.value / reference
    return f"   ours {times:,.2f} times as good"


def verdict(target: Target, found: Sequence[Figure]) -> str:
    """Reached or not; what was not measured is not reached."""
    ours = _value(found, OURS, target.measure, target.store)
    if ours is None:
        return "not reached: not measured"
    if target.times is None:
        return _judged(target, ours, target.bound or 0.0, number(ours))
    peer_measure = target.peer_measure or target.measure
    peer_store = target.store if target.peer == OURS else target.peer_store
    peer = _value(found, target.peer, peer_measure, peer_store)
    if not peer:
        return f"not reached: {target.peer} did not run ({number(ours)})"
    seen = f"{ours / peer:,.2f} x ({number(ours)} against {number(peer)})"
    return _judged(target, ours, target.times * peer, seen)


def _judged(target: Target, ours: float, bound: float, seen: str) -> str:
    good = ours >= bound if BY_NAME[target.measure].best == "most" else ours <= bound
    return f"{'reached' if good else 'not reached'}: {seen}"


def _value(found: Sequence[Figure], name: str, measure: str, store: str | None) -> float | None:
    return next(
        (
            figure.value
            for figure in found
            if (figure.contestant, figure.measure) == (name, measure)
            and store in {None, figure.store}
        ),
        None,
    )


def number(value: float) -> str:
    return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
