"""What a policy does in an outage, computed, drawn and told."""

import xml.etree.ElementTree as ET
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from homing.cli.plan import drawn, picture
from homing.domain.policy import Exponential, FullJitter, Ladder, Retry
from homing.engine.ops.planning import forecast

ISSUE = Retry(Ladder((60.0, 300.0, 1800.0)), 4)


def test_the_example_of_the_issue() -> None:
    seen = forecast(ISSUE, 2400.0)

    assert seen.attempts_at_s == (0.0, 60.0, 360.0, 2160.0)
    assert not seen.survives
    assert seen.reach_s == 2160.0
    assert seen.lost_window_s == 240.0
    text = "\n".join(drawn(seen))
    assert "Every message survives an outage of up to 36m." in text
    assert "messages accepted in its first 4m would become dead letters" in text


def test_an_outage_within_reach_costs_no_message() -> None:
    seen = forecast(ISSUE, 300.0)

    assert seen.delivered_at_s == 360.0
    lines = drawn(seen)
    assert sum(line.startswith("attempt") for line in lines) == 3
    assert lines[3].endswith("+6m delivered")
    assert lines[-1].endswith("the first one is delivered 1m after it ends.")


def test_no_outage_and_a_single_attempt() -> None:
    assert forecast(Retry(Ladder((60.0,)), 1), 0.0).delivered_at_s == 0.0
    assert forecast(Retry(Ladder((60.0,)), 1), 1.0).lost_window_s == 1.0
    assert drawn(forecast(Retry(Ladder((0.0,)), 1), 0.0))


def test_with_jitter_nothing_is_promised() -> None:
    seen = forecast(Retry(FullJitter(Exponential(2.0, 2.0, 60.0)), 3), 100.0)

    assert seen.attempts_at_s == (0.0, 1.0, 3.0)
    assert "Every message survives" not in "\n".join(drawn(seen))
    assert "on average" in "\n".join(drawn(seen))


@given(
    st.lists(st.integers(0, 100_000), min_size=1, max_size=6),
    st.integers(1, 12),
    st.integers(0, 1_000_000),
)
def test_what_comes_after_the_lost_window_survives(
    steps_s: list[int], max_attempts: int, outage_s: int
) -> None:
    retry = Retry(Ladder(tuple(steps_s)), max_attempts)
    seen = forecast(retry, outage_s)

    assert len(seen.attempts_at_s) == max_attempts
    assert list(seen.attempts_at_s) == sorted(seen.attempts_at_s)
    assert seen.survives == (seen.lost_window_s == 0.0)
    assert forecast(retry, outage_s - seen.lost_window_s).survives
    ET.fromstring(picture(seen))


def test_the_picture_is_an_svg_with_every_attempt(tmp_path: Path) -> None:
    root = ET.fromstring(picture(forecast(ISSUE, 2400.0)))

    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 4
    assert {circle.get("fill") for circle in circles} == {"#b03030"}
