"""Whatever happens to a delivery, in whatever order and under whatever plan: what always holds.

I6, I7, I13, I16, I20; see `invariants` for what is checked and `life` for what may happen.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homing.domain.transitions import EDGES
from tests.unit.domain.life import Life


@pytest.mark.timeout(400)  # a failure is worth its shrinking; without one it takes a second
@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 25))
def test_the_invariants_hold_over_any_life(chance: Random, turns: int) -> None:
    Life(chance).live(turns)


@pytest.mark.parametrize("seed", range(5))
def test_the_invariants_hold_over_many_lives(seed: int) -> None:
    for number in range(200):
        try:
            Life(Random(f"{seed}/{number}")).live(turns=40)
        except AssertionError as error:
            error.add_note(f"in the life of Random('{seed}/{number}')")
            raise


def test_i6_delivered_and_suppressed_are_final() -> None:
    for state in ("delivered", "suppressed"):
        leaving = {name for name, edge in EDGES.items() if state in edge.sources}
        assert leaving == {"mark_notified"}
