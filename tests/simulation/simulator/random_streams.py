"""One seed, many streams of rng: a new draw in one place moves no other."""

from __future__ import annotations

import random


class RandomStreams:
    def __init__(self, seed: int) -> None:
        self._seed = seed

    def named(self, name: str) -> random.Random:
        return random.Random(f"{name} {self._seed}")
