"""Repeatable random numbers: the same seed gives the same numbers, on every machine."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable


class SeededRandom:
    """Pass it to the engine instead of the system's rng.

    `rolls` come first, one for each call of `roll`; then, and for `entropy`, the seed decides.
    """

    def __init__(self, seed: int | str = 0, rolls: Iterable[float] = ()) -> None:
        # A text seeds by its digest, never by `hash()`: PYTHONHASHSEED plays no part.
        self._random = random.Random(f"rng {seed}")  # noqa: S311 - repeatable, not secret
        self._rolls = deque(rolls)

    def roll(self) -> float:
        return self._rolls.popleft() if self._rolls else self._random.random()

    def entropy(self, size: int) -> bytes:
        return self._random.randbytes(size)
