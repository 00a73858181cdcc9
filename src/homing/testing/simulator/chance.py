"""One seed, many streams of chance: a new draw in one place moves no other."""

from __future__ import annotations

import random


class Chance:
    def __init__(self, seed: int) -> None:
        self._seed = seed

    def stream(self, name: str) -> random.Random:
        return random.Random(f"{name} {self._seed}")  # noqa: S311 - repeatable, not secret
