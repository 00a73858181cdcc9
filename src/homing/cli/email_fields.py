"""Fields of an e-mail as in `POST /deliveries`, from a file or from options."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from homing.domain.errors import InvalidRequest
from homing.domain.message import Email

MAX_FIELDS_BYTES = 64 * 1024 * 1024
# The name of a field in the API, where an e-mail has another.
RENAMED = {"from": "sender"}


def email_from(given: Mapping[str, Any], instead_in: Email | None = None) -> Email:
    """An e-mail of these fields, or another one with them instead of its own.

    InvalidRequest names a field that is wrong.
    """
    import msgspec

    from homing.web.api.intake import email_of
    from homing.web.api.schemas import EmailIn
    from homing.web.http.problems import BadRequest
    from homing.web.http.strict_json import parse

    known = [each.encode_name for each in msgspec.structs.fields(EmailIn)]
    for name in given:
        if name not in known:
            raise InvalidRequest(name, f"is not a field of an e-mail; those are {', '.join(known)}")
    try:
        email = email_of(parse(msgspec.json.encode(given), EmailIn))
    except BadRequest as error:
        raise InvalidRequest(error.field or "fields", error.detail) from None
    if instead_in is None:
        return email
    fields = [RENAMED.get(name, name) for name in given]
    return msgspec.structs.replace(instead_in, **{name: getattr(email, name) for name in fields})


def read_fields(path: Path) -> dict[str, Any]:
    """A JSON object from a file; `-` is stdin."""
    import msgspec

    try:
        with sys.stdin.buffer if str(path) == "-" else path.open("rb") as file:
            data = file.read(MAX_FIELDS_BYTES + 1)
    except OSError as error:
        raise InvalidRequest("fields", f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_FIELDS_BYTES:
        raise InvalidRequest("fields", f"is larger than {MAX_FIELDS_BYTES:,} bytes")
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidRequest("fields", f"is not a JSON object: {error}") from None
