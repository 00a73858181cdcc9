"""Durations as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homing.settings.durations import LONGEST_S, Seconds, seconds, span


@pytest.mark.parametrize(
    ("text", "value_s"),
    [
        (30, 30.0),
        (1.5, 1.5),
        ("30", 30.0),
        ("1.5", 1.5),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("7d", 604800.0),
        ("1h30m", 5400.0),
        ("0", 0.0),
    ],
)
def test_a_duration_is_read_as_written(text: str | float, value_s: float) -> None:
    assert seconds(text) == value_s


@pytest.mark.parametrize(
    "text",
    ["", "soon", "5 m", "5m ", "m5", "-5s", -1, "1e3", "5x", "٣s", "1.s", "5m5", "nan", "inf"],
)
def test_anything_else_is_refused(text: str | float) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), LONGEST_S + 1, "9" * 400])
def test_no_duration_is_endless(value: str | float) -> None:
    with pytest.raises(ValueError, match="hundred years"):
        seconds(value)


@given(st.integers(min_value=0, max_value=10 * 366 * 86_400_000))
def test_what_is_shown_is_read_back_to_the_millisecond(time_ms: int) -> None:
    assert round(seconds(span(time_ms / 1000)) * 1000) == time_ms


def test_a_duration_is_shown_as_people_write_it() -> None:
    assert repr(Seconds(5400.0)) == "1h30m"
    assert span(0.0) == "0s"
    assert Seconds(1.0) == Seconds(1.0)
    assert hash(Seconds(1.0)) == hash(Seconds(1.0))
    assert Seconds(1.0) != 1.0
