"""Graph sends a MIME message to the addresses in its header: there is no envelope beside it."""

from __future__ import annotations

from email.parser import BytesHeaderParser
from email.utils import getaddresses

from homing.domain.failure import Failure
from homing.ports import Envelope

_NAMED_IN = ("to", "cc", "bcc")


def mime_for(envelope: Envelope) -> bytes | Failure:
    """The message with a Bcc header for the recipients that its header does not name.

    Exchange removes that header. An address that the header names and that is not to get the
    message (any more) is a reason to refuse it: it would be sent there.
    """
    header = BytesHeaderParser().parsebytes(envelope.data)
    lines = [str(line) for name in _NAMED_IN for line in header.get_all(name, [])]
    named = {_comparable(address) for _, address in getaddresses(lines) if address}
    wanted = {_comparable(address): address for address in envelope.recipients}
    if extra := named - wanted.keys():
        detail = f"{len(extra)} of the addresses in the header are not to get this message"
        return Failure("recipients_differ", "reject", detail=detail)
    hidden = [address for key, address in wanted.items() if key not in named]
    if not hidden:
        return envelope.data
    line = "Bcc: " + ",\r\n ".join(hidden) + "\r\n"
    return line.encode("utf-8", "surrogateescape") + envelope.data


def _comparable(address: str) -> str:
    local, _, domain = address.rpartition("@")
    try:
        domain = domain.encode("idna").decode("ascii")
    except UnicodeError:
        """Compared as it is written."""
    return f"{local}@{domain}".lower()
