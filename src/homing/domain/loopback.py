"""Whether an address is this machine's own."""

from __future__ import annotations

import ipaddress

NAMES = frozenset({"localhost", "localhost.localdomain"})


def is_loopback(host: str) -> bool:
    """A name or an address, also in the brackets of a URL. Unknown names are not looked up."""
    if host in NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
