"""The clock and the rng that we hand to those who test their own use of Homing."""

from __future__ import annotations

import pytest

from homing.ports import Clock, Random
from homing.testing.clocks import DAY_S, ManualClock
from homing.testing.random_numbers import SeededRandom


def test_time_passes_on_both_clocks_and_only_when_told() -> None:
    clock: Clock = ManualClock(now_ms=1_000_000, steady_s=50.0)
    assert isinstance(clock, ManualClock)
    clock.advance(1.5)
    assert (clock.now_ms(), clock.steady_s()) == (1_001_500, 51.5)
    assert (clock.now_ms(), clock.steady_s()) == (1_001_500, 51.5)


def test_a_jump_moves_the_wall_alone() -> None:
    clock = ManualClock(now_ms=1_000_000_000)
    before_s = clock.steady_s()
    clock.jump(-DAY_S)
    assert clock.now_ms() == 1_000_000_000 - 86_400_000
    assert clock.steady_s() == before_s


def test_time_does_not_pass_backwards() -> None:
    with pytest.raises(ValueError, match="jump"):
        ManualClock().advance(-1)


def test_a_reboot_begins_the_steady_clock_anew() -> None:
    clock = ManualClock(boot="one")
    clock.reboot("two")
    assert (clock.boot, clock.steady_s()) == ("two", 0.0)


def test_loaded_rng_repeat_themselves() -> None:
    def thrown(rng: Random) -> tuple[float, bytes]:
        return rng.roll(), rng.entropy(8)

    assert thrown(SeededRandom(7)) == thrown(SeededRandom(7)) != thrown(SeededRandom(8))


def test_loaded_rng_first_roll_what_they_were_told_to() -> None:
    rng = SeededRandom(rolls=(0.0, 0.5))
    assert [rng.roll(), rng.roll()] == [0.0, 0.5]
    assert 0.0 <= rng.roll() < 1.0
