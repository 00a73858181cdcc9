"""From where a request comes: the names of this service, pages of other sites, and proxies."""

from __future__ import annotations

import functools
import re
from ipaddress import IPv6Address, ip_address, ip_network

from homing.domain.loopback import is_loopback
from homing.settings.tree import ServerSettings
from homing.web.http.answers import Answer
from homing.web.http.calls import Call
from homing.web.http.problems import problem

SAFE = frozenset({"GET", "HEAD"})
_HOST = re.compile(rb"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,255})(?::[0-9]{1,5})?")


class Origins:
    """What the settings say about names and proxies, as checks of one call."""

    def __init__(self, server: ServerSettings) -> None:
        self._url = None if server.public_url is None else server.public_url.lower().encode()
        self._proxies = [ip_network(address) for address in server.trusted_proxies]

    def refusal(self, call: Call) -> Answer | None:
        """A name that is not ours (DNS rebinding), or a page of another site."""
        host = call.once.get(b"host", b"").lower()
        if self._url is not None and not self._is_known(host):
            return problem(403, detail="unknown Host", field="Host")
        origin = call.once.get(b"origin")
        if origin is None or origin.lower() in self._own(call, host):
            return _of_another_site(call)
        detail = "requests from other origins are refused"
        if call.proxied is not None and self._url is None:
            detail += "; behind a proxy, server.public_url must be how browsers reach it"
        return problem(403, detail=detail, field="Origin")

    def is_proxy(self, call: Call) -> bool:
        """Whether the call comes from a proxy that the settings name."""
        if not self._proxies or not call.scope.get("client"):
            return False
        try:
            peer = ip_address(call.scope["client"][0])
        except ValueError:
            return False
        if isinstance(peer, IPv6Address) and peer.ipv4_mapped is not None:
            peer = peer.ipv4_mapped
        return any(peer in network for network in self._proxies)

    def client(self, call: Call) -> str:
        """The address of the caller: of a named proxy, the one that it has seen."""
        peer = call.scope.get("client") or ("", 0)
        if self.is_proxy(call) and (seen := call.header(b"x-forwarded-for")) is not None:
            return seen.rpartition(b",")[2].strip().decode("latin-1")
        return str(peer[0])

    def is_encrypted(self, call: Call) -> bool:
        """Whether the browser speaks HTTPS, as far as can be known."""
        if call.scope["scheme"] == "https":
            return True
        if (seen := call.header(b"x-forwarded-proto")) is not None:
            return seen.strip().lower() == b"https"
        return call.proxied is not None or self.has_https

    @property
    def has_https(self) -> bool:
        """Whether the settings say that browsers reach this service by HTTPS."""
        return (self._url or b"").startswith(b"https://")

    def came_by_https(self, call: Call) -> bool:
        """As the page says that has made the call; a proxy may name neither itself nor the host."""
        return self.has_https and call.once.get(b"origin", b"").lower() == self._url

    def _is_known(self, host: bytes) -> bool:
        return names_loopback(host) or host == (self._url or b"").partition(b"://")[2]

    def _own(self, call: Call, host: bytes) -> tuple[bytes, ...]:
        scheme = call.scope["scheme"].encode()
        own = (scheme + b"://" + host,)
        if self._url is not None:
            return (self._url, *own) if names_loopback(host) else (self._url,)
        # A proxy in front may have ended the encryption.
        return own if call.proxied is None else (*own, b"https://" + host)


def refused_when_open(call: Call) -> Answer | None:
    """Open means open to programs of this machine, but not to web pages in its browser, nor to
    callers behind a proxy that runs here."""
    host = call.once.get(b"host", b"")
    if not names_loopback(host):
        return problem(403, detail="unknown Host", field="Host")
    if (peer := call.scope.get("client")) and not is_loopback(peer[0]):
        return problem(403, detail="open is for programs of this machine")
    origin = call.once.get(b"origin")
    if origin is not None and origin != call.scope["scheme"].encode() + b"://" + host:
        return problem(403, detail="requests from other origins are refused", field="Origin")
    if call.proxied is not None:
        return problem(
            403,
            detail="without API tokens no request is served through a proxy;"
            " make one: homing token create NAME --role sender",
            field=call.proxied.decode("ascii"),
        )
    return _of_another_site(call)


def _of_another_site(call: Call) -> Answer | None:
    """Browsers name no origin for a picture, a script or a frame, but say where its page is from.
    A link that a person follows is welcome from anywhere."""
    site = call.once.get(b"sec-fetch-site")
    if site is None or site in (b"same-origin", b"none"):
        return None
    kind = call.once.get(b"sec-fetch-mode"), call.once.get(b"sec-fetch-dest")
    if kind == (b"navigate", b"document") and call.scope["method"] in SAFE:
        return None
    return problem(403, detail="requests from other sites are refused", field="Sec-Fetch-Site")


def is_plain_loopback(call: Call) -> bool:
    """HTTP on this machine itself, where no network can listen."""
    plain = call.scope["scheme"] == "http" and call.proxied is None
    return plain and names_loopback(call.once.get(b"host", b""))


@functools.lru_cache(maxsize=256)
def names_loopback(host: bytes) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and is_loopback(found["name"].decode("ascii").lower())
