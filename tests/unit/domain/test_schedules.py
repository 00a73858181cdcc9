"""When the next attempt comes: ladders, doubling, jitter."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homing.domain.failure import Failure
from homing.domain.policy import LONGEST_DELAY_S, Exponential, FullJitter, Ladder, Retry, Schedule
from homing.testing.random_numbers import SeededRandom

VERDICTS = Ladder((0.0, 300.0, 1800.0, 7200.0), first=1)
MAIL = Ladder((60.0, 300.0, 1800.0))
REVIEWS = Exponential(initial_s=1.0, max_s=60.0)
EVENTS = Exponential(initial_s=1.0, max_s=300.0)
BOOKINGS = Exponential(initial_s=30.0, first=1)

SOFT = Failure("deferred")


def ceilings_s(schedule: Schedule, attempts: range) -> list[float]:
    return [schedule.ceiling_s(attempt) for attempt in attempts]


def test_a_ladder_after_the_inline_call_begins_before_the_first_worker_attempt() -> None:
    assert ceilings_s(VERDICTS, range(1, 5)) == [0.0, 300.0, 1800.0, 7200.0]


def test_a_ladder_of_retries_begins_before_the_second_attempt() -> None:
    assert ceilings_s(MAIL, range(1, 5)) == [0.0, 60.0, 300.0, 1800.0]


def test_the_last_step_of_a_ladder_repeats() -> None:
    assert ceilings_s(MAIL, range(4, 8)) == [1800.0] * 4
    assert MAIL.ceiling_s(10_000) == 1800.0


def test_an_empty_ladder_never_waits() -> None:
    assert ceilings_s(Ladder(()), range(5)) == [0.0] * 5


def test_c_021_c_022_c_023_reviews_double_from_one_second_to_sixty() -> None:
    assert ceilings_s(REVIEWS, range(2, 10)) == [1, 2, 4, 8, 16, 32, 60, 60]


def test_e_007_e_008_e_011_events_double_from_one_second() -> None:
    assert ceilings_s(EVENTS, range(2, 7)) == [1, 2, 4, 8, 16]


def test_e_009_events_wait_five_minutes_at_most() -> None:
    values = ceilings_s(EVENTS, range(2, 14))

    assert values[8] == 256
    assert values[9:] == [300, 300, 300]


def test_e_014_the_default_waits_thirty_one_seconds_at_most() -> None:
    assert sum(ceilings_s(EVENTS, range(2, 7))) == 31


def test_b_033_bookings_wait_thirty_seconds_doubled_by_each_attempt() -> None:
    assert ceilings_s(BOOKINGS, range(1, 6)) == [30, 60, 120, 240, 480]


@pytest.mark.parametrize("attempt", [64, 65, 66, 67, 1000, 2000, 10**6])
@pytest.mark.parametrize("multiplier", [1.05, 2.0, 10.0, 1e6])
def test_a_far_attempt_waits_the_cap_and_never_overflows(attempt: int, multiplier: float) -> None:
    capped = Exponential(initial_s=1.0, multiplier=multiplier, max_s=20.0)
    free = Retry(Exponential(initial_s=1.0, multiplier=multiplier))

    assert capped.ceiling_s(attempt) == 20.0
    assert 0 < free.delay_ms(attempt, SOFT, 0.0) <= LONGEST_DELAY_S * 1000


@given(
    st.builds(
        Exponential,
        initial_s=st.floats(0.001, 100),
        multiplier=st.floats(1.0, 20.0),
        max_s=st.floats(100, 100_000),
        first=st.integers(1, 3),
    ),
    st.integers(0, 200),
)
def test_waits_never_grow_shorter(schedule: Exponential, attempt: int) -> None:
    assert 0 <= schedule.ceiling_s(attempt) <= schedule.ceiling_s(attempt + 1)
    assert schedule.max_s is not None
    assert schedule.ceiling_s(attempt) <= schedule.max_s


@pytest.mark.parametrize("attempt", [2, 3, 6, 8])
def test_c_024_e_010_full_jitter_is_uniform_below_the_ceiling(attempt: int) -> None:
    schedule, rng = FullJitter(REVIEWS), SeededRandom(seed=attempt)
    ceiling_s = REVIEWS.ceiling_s(attempt)

    draws = [schedule.delay_s(attempt, rng.roll()) for _ in range(10_000)]

    assert 0 <= min(draws) <= max(draws) <= ceiling_s
    assert len(set(draws)) > 9_900
    assert statistics.fmean(draws) == pytest.approx(ceiling_s / 2, rel=0.03)
    tenths = statistics.quantiles(draws, n=10)
    expected = [ceiling_s * n / 10 for n in range(1, 10)]
    assert tenths == pytest.approx(expected, abs=ceiling_s * 0.03)


def test_the_same_seed_draws_the_same_waits() -> None:
    def draws(seed: int) -> list[float]:
        rng = SeededRandom(seed=seed)
        return [FullJitter(EVENTS).delay_s(5, rng.roll()) for _ in range(20)]

    assert draws(1) == draws(1) != draws(2)


@given(st.floats(0, 1, exclude_max=True), st.floats(0, 100), st.integers(1, 12))
def test_jitter_keeps_to_its_floor_and_its_ceiling(roll: float, floor_s: float, n: int) -> None:
    ceiling_s = REVIEWS.ceiling_s(n)

    delay_s = FullJitter(REVIEWS, floor_s=floor_s).delay_s(n, roll)

    assert min(floor_s, ceiling_s) <= delay_s <= ceiling_s
    assert FullJitter(REVIEWS).ceiling_s(n) == ceiling_s


def test_ladder_and_doubling_take_no_notice_of_the_rng() -> None:
    assert {schedule.delay_s(3, roll) for schedule in (MAIL,) for roll in (0.0, 0.5, 0.99)} == {300}
    assert {BOOKINGS.delay_s(3, roll) for roll in (0.0, 0.5, 0.99)} == {120}
