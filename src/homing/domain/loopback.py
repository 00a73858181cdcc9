"""Whether an address is this machine's own."""

from __future__ import annotations

import functools
import ipaddress

NAMES = frozenset({"localhost", "localhost.localdomain"})


# Asked of the peer of every request.
@functools.lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """A name or an address, also in the brackets of a URL. Names are not resolved."""
    if host in NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
