"""Steps that never wait let others be heard: intake, settling and the next claim."""

from __future__ import annotations

import asyncio

IN_ONE_TURN = 64


class Turns:
    """At most so many in one turn of the event loop."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self) -> bool:
        """Whether this turn has room for one more; if not, sleep for a turn and ask again."""
        if self._taken >= IN_ONE_TURN:
            return False
        if self._taken == 0:
            asyncio.get_running_loop().call_soon(self._next)
        self._taken += 1
        return True

    def _next(self) -> None:
        self._taken = 0
