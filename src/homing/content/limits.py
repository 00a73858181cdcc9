"""Limits on the size of one e-mail, as data, so that a route can have its own."""

from __future__ import annotations

from msgspec import Struct

from homing.domain.errors import TooLarge

MB = 1_000_000
MIB = 1024 * 1024


class Limits(Struct, frozen=True, kw_only=True):
    """Everything is counted as given, never unpacked: an archive counts with its own size."""

    recipients: int = 100
    reply_to: int = 10
    subject_chars: int = 998
    body_bytes: int = MB
    attachments: int = 50
    attachments_bytes: int = 25 * MB
    filename_bytes: int = 255
    nested_messages: int = 3
    # Reading one takes 2 ms of processor time per KB, in the event loop.
    ics_bytes: int = MIB // 16
    headers: int = 50
    header_chars: int = 2000
    variables_bytes: int = MIB
    json_depth: int = 32
    metadata: int = 50
    metadata_chars: int = 1000


DEFAULT = Limits()


def too_large(field: str, size: int, limit: int, unit: str) -> TooLarge:
    """The one refusal for size, to distinguish it from a wrong value."""
    return TooLarge(field, f"is too large: {size:,} {unit}, at most {limit:,} are allowed")
