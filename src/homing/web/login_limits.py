"""How often passwords may be tried: by one address, and by all together."""

from __future__ import annotations

from collections.abc import Callable

# Of one address, and of all together: a guesser with many addresses is slowed down as well.
FAILURES = 5
ALL_FAILURES = 50
WINDOW_S = 60.0


class LoginLimits:
    """`steady_s` is a clock that never goes back."""

    def __init__(self, steady_s: Callable[[], float]) -> None:
        self._steady_s = steady_s
        self._tries: list[tuple[float, str]] = []

    def retry_after_s(self, client: str) -> int | None:
        """How long this client must wait before the next try; None: not at all."""
        now_s = self._steady_s()
        self._tries = [each for each in self._tries if each[0] > now_s - WINDOW_S]
        of_all = [at_s for at_s, _ in self._tries]
        own = [at_s for at_s, who in self._tries if who == client]
        for tries, allowed in ((own, FAILURES), (of_all, ALL_FAILURES)):
            if len(tries) >= allowed:
                return int(tries[0] + WINDOW_S - now_s) + 1
        return None

    def begin(self, client: str) -> Callable[[], None]:
        """A try counts as failed from its begin, so that many at once are limited as well. Call
        what is returned if it succeeds."""
        entry = (self._steady_s(), client)
        self._tries.append(entry)
        return lambda: self._tries.remove(entry)
