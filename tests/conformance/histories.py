"""Random histories: what a view shows is compared with the RecordLayout after every action."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping

Action = Callable[[], Awaitable[object]]


async def play(
    rng: random.Random, actions: Mapping[Action, float], compare: Action, *, times: int = 40
) -> None:
    """`actions` with how often each is chosen, relative to the others."""
    for _ in range(times):
        [action] = rng.choices(list(actions), list(actions.values()))
        await action()
        try:
            await compare()
        except AssertionError as error:
            error.add_note(f"after {getattr(action, '__name__', action)}")
            raise
