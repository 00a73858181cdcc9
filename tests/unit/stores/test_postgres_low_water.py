"""Claims begin at a mark only while old index entries make them slow."""

from __future__ import annotations

import pytest

from homing.stores.sql.postgres.low_water import (
    FROM_THE_START,
    LOOK_AT_ALL_EVERY_S,
    MARGIN_MS,
    LowWater,
)
from homing.testing import samples
from homing.testing.samples import NOW_MS, QUEUE

QUICK_S, SLOW_S = 0.01, 0.5
BIG = samples.claim(limit=256)


class Steady:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def steady() -> Steady:
    return Steady()


@pytest.fixture
def marks(steady: Steady) -> LowWater:
    return LowWater(steady)


def claim(marks: LowWater, took_s: float, *due_at_ms: int) -> None:
    taken = [(QUEUE, 2, at_ms) for at_ms in due_at_ms]
    marks.learn(BIG, taken, took_s, looked_at_all=marks.looks_at_all(BIG))


def test_quick_claims_look_at_everything(marks: LowWater) -> None:
    claim(marks, QUICK_S, NOW_MS)
    claim(marks, QUICK_S, NOW_MS + 1)

    assert marks.looks_at_all(BIG)
    assert marks.starts([QUEUE], 2) == [FROM_THE_START]


def test_slow_ones_begin_where_the_last_one_began(marks: LowWater) -> None:
    claim(marks, QUICK_S, NOW_MS)
    claim(marks, SLOW_S, NOW_MS + 2000, NOW_MS + 1000)

    assert not marks.looks_at_all(BIG)
    assert marks.starts([QUEUE, "other"], 2) == [NOW_MS + 1000 - MARGIN_MS, FROM_THE_START]
    assert marks.starts([QUEUE], 1) == [FROM_THE_START]
    assert marks.leases_from_ms == BIG.now_ms - MARGIN_MS

    claim(marks, QUICK_S, NOW_MS + 3000)
    assert marks.starts([QUEUE], 2) == [NOW_MS + 3000 - MARGIN_MS]
    claim(marks, QUICK_S)  # nothing was due: that is no reason to look at everything
    assert not marks.looks_at_all(BIG)


def test_everything_is_looked_at_every_few_seconds(marks: LowWater, steady: Steady) -> None:
    claim(marks, QUICK_S, NOW_MS)
    claim(marks, SLOW_S, NOW_MS)
    steady.now_s += LOOK_AT_ALL_EVERY_S

    assert marks.looks_at_all(BIG)
    claim(marks, QUICK_S, NOW_MS)
    assert marks.looks_at_all(BIG)  # the way is free again
    assert marks.starts([QUEUE], 2) == [FROM_THE_START]


def test_a_small_claim_looks_at_everything(marks: LowWater) -> None:
    claim(marks, QUICK_S, NOW_MS)
    claim(marks, SLOW_S, NOW_MS)

    assert marks.looks_at_all(samples.claim(limit=10))


def test_what_a_small_claim_takes_is_no_measure_for_large_ones(marks: LowWater) -> None:
    marks.learn(samples.claim(limit=10), [], QUICK_S / 100, looked_at_all=True)
    claim(marks, 2 * QUICK_S, NOW_MS)

    assert marks.looks_at_all(BIG)


def test_a_look_at_everything_forgets_the_marks_of_what_it_did_not_find(
    marks: LowWater, steady: Steady
) -> None:
    claim(marks, QUICK_S, NOW_MS)
    claim(marks, SLOW_S, NOW_MS)
    steady.now_s += LOOK_AT_ALL_EVERY_S
    marks.learn(BIG, [("other", 2, NOW_MS)], SLOW_S, looked_at_all=True)

    assert not marks.looks_at_all(BIG)
    assert marks.starts([QUEUE, "other"], 2) == [FROM_THE_START, NOW_MS - MARGIN_MS]
