"""A provider's wish to wait: never undercut, unless the route sets a cap."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homing.domain.failure import RATE_LIMITED, Failure
from homing.domain.policy import (
    LONGEST_DELAY_S,
    Exponential,
    FullJitter,
    Ladder,
    Retry,
    RetryAfter,
)

VERDICTS = Retry(Ladder((0.0, 300.0), first=1), retry_after=RetryAfter(min_s=60.0))
REVIEWS = Retry(FullJitter(Exponential(1.0, max_s=60.0)), retry_after=RetryAfter(cap_s=300.0))


def rate_limited(retry_after_s: float | None = None) -> Failure:
    return Failure(RATE_LIMITED, code="429", retry_after_s=retry_after_s)


def unavailable(retry_after_s: float | None = None) -> Failure:
    return Failure("unavailable", code="503", retry_after_s=retry_after_s)


@pytest.mark.parametrize(("asked_s", "waited_s"), [(10, 60), (120, 120), (4000, 4000)])
def test_o_028_a_rate_limit_waits_what_was_asked_and_a_minute_at_least(
    asked_s: float, waited_s: float
) -> None:
    assert VERDICTS.delay_ms(1, rate_limited(asked_s), 0.0) == waited_s * 1000


@pytest.mark.parametrize("garbage", [None, 0.0, -5.0, math.nan])
def test_o_029_a_rate_limit_without_a_usable_time_waits_a_minute(garbage: float | None) -> None:
    assert VERDICTS.delay_ms(1, rate_limited(garbage), 0.0) == 60_000


def test_the_minimum_is_for_rate_limits_alone() -> None:
    assert VERDICTS.delay_ms(1, unavailable(), 0.0) == 0
    assert VERDICTS.delay_ms(1, unavailable(10), 0.0) == 10_000


def test_the_ladder_holds_where_it_is_longer_than_the_wish() -> None:
    assert VERDICTS.delay_ms(2, rate_limited(120), 0.0) == 300_000


def test_c_026_the_longer_of_back_off_and_header() -> None:
    assert REVIEWS.delay_ms(2, rate_limited(30), 0.99) == 30_000
    assert REVIEWS.delay_ms(7, rate_limited(5), 0.5) == 16_000


def test_c_027_the_wish_is_cut_at_five_minutes() -> None:
    assert REVIEWS.delay_ms(2, rate_limited(3600), 0.0) == 300_000


def test_c_028_the_header_counts_on_any_answer() -> None:
    assert REVIEWS.delay_ms(2, unavailable(20), 0.0) == 20_000


def test_the_cap_is_for_the_wish_and_not_for_our_own_schedule() -> None:
    patient = Retry(Ladder((7200.0,)), retry_after=RetryAfter(cap_s=300.0))

    assert patient.delay_ms(2, unavailable(), 0.0) == 7_200_000
    assert patient.delay_ms(2, unavailable(86_400), 0.0) == 7_200_000


def test_the_minimum_is_stronger_than_the_cap() -> None:
    policy = Retry(Ladder((0.0,)), retry_after=RetryAfter(min_s=60.0, cap_s=10.0))

    assert policy.delay_ms(2, rate_limited(3600), 0.0) == 60_000


@given(
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 10**6),
    st.integers(1, 100),
    st.sampled_from([RATE_LIMITED, "unavailable", "timed_out"]),
)
def test_i13_never_early_by_any_roll(
    roll: float, asked_s: float, attempt: int, error_class: str
) -> None:
    retry = Retry(FullJitter(Exponential(1.0, max_s=60.0)))

    delay_ms = retry.delay_ms(attempt, Failure(error_class, retry_after_s=asked_s), roll)

    assert delay_ms >= asked_s * 1000


@pytest.mark.parametrize("absurd_s", [1e9, 1e20, 1e300, math.inf])
def test_an_absurd_wish_keeps_the_delivery_within_reach(absurd_s: float) -> None:
    assert Retry().delay_ms(2, unavailable(absurd_s), 0.0) == LONGEST_DELAY_S * 1000


@pytest.mark.parametrize("useless_s", [-1.0, -math.inf, math.nan, 0.0])
def test_a_wish_that_is_no_time_changes_nothing(useless_s: float) -> None:
    assert Retry(Ladder((60.0,))).delay_ms(2, unavailable(useless_s), 0.0) == 60_000
