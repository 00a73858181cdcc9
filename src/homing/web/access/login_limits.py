"""How often passwords may be tried: by one address, and by all together."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Network, ip_address

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
        client = _counted_as(client)
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
        entry = (self._steady_s(), _counted_as(client))
        self._tries.append(entry)

        def succeeded() -> None:
            if entry in self._tries:  # a slow check may have outlasted the window
                self._tries.remove(entry)

        return succeeded


def _counted_as(client: str) -> str:
    """A household or a host has a whole network of 2^64 addresses in IPv6: it counts as one."""
    try:
        address = ip_address(client.partition("%")[0])
    except ValueError:
        return client
    if isinstance(address, IPv4Address):
        return client
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((address, 64), strict=False))
