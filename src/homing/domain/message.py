"""What a caller submits: an e-mail, an event, or a job. It does not change once accepted."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from homing.domain.errors import InvalidRequest
from homing.domain.redaction import redact

Addresses: TypeAlias = str | Sequence[str]
Json: TypeAlias = Any
"""What a JSON document can hold. Dates, UUIDs and the like come back as text, bytes as base64."""


class Attachment(Struct, frozen=True, omit_defaults=True):
    """A file that is sent with an e-mail. The HTML can refer to its `content_id`: `cid:logo`."""

    filename: str
    content: bytes
    content_type: str = "application/octet-stream"
    content_id: str | None = None


class Invitation(Struct, frozen=True):
    """A calendar part; `method` is REQUEST, CANCEL or another iTIP word."""

    ics: str
    method: str = "REQUEST"


class Email(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="email"):
    """One message to one envelope. Either text (and HTML), or a template with variables.

    `sender` is its From, one of those that the route allows; by default the route's own.
    """

    to: Addresses = ()
    subject: str = ""
    text: str = ""
    html: str | None = None
    sender: str | None = None
    cc: Addresses = ()
    bcc: Addresses = ()
    reply_to: Addresses = ()
    attachments: Sequence[Attachment] = ()
    invitation: Invitation | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    template_id: str | None = None
    locale: str | None = None
    variables: Mapping[str, Json] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # As intake makes it, or decoding: there `to` is a list. Asked so, it costs a third of the
        # loop below.
        if (
            self.cc.__class__ is tuple
            and self.bcc.__class__ is tuple
            and self.reply_to.__class__ is tuple
            and self.attachments.__class__ is tuple
        ):
            if self.to.__class__ is list:
                force_setattr(self, "to", tuple(self.to))
            if self.to.__class__ is tuple:
                return
        # One address or many: callers write either, all other code gets a tuple.
        for name in ("to", "cc", "bcc", "reply_to"):
            value = getattr(self, name)
            if isinstance(value, tuple):
                continue
            if isinstance(value, str):
                force_setattr(self, name, (value,))
            # Mostly a list, and the abstract class is slow to ask.
            elif isinstance(value, (list, Sequence)):
                force_setattr(self, name, tuple(value))
            else:
                raise InvalidRequest(name, "must be an address or a list of addresses")
        if not isinstance(self.attachments, tuple):
            if not isinstance(self.attachments, (list, Sequence)):
                raise InvalidRequest("attachments", "must be a list of Attachment values")
            force_setattr(self, "attachments", tuple(self.attachments))

    @property
    def envelope(self) -> tuple[str, ...]:
        """Every address that receives it, each once, in order."""
        return tuple(dict.fromkeys((*self.to, *self.cc, *self.bcc)))


# `gc=False`: data that refers to its own message cannot be stored anyway.
class Event(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="kind", tag="event"):
    """Something that happened, for the handlers of its type."""

    type: str
    data: Json = None
    metadata: Mapping[str, str] = field(default_factory=dict)


class Job(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="kind", tag="job"):
    """A piece of staged work."""

    name: str
    data: Json = None
    metadata: Mapping[str, str] = field(default_factory=dict)


Message: TypeAlias = Email | Event | Job

SMALLEST_INT = -(2**63)
LARGEST_INT = 2**64 - 1


def _plain_text(value: object) -> str:
    """Template engines return subclasses of `str`, which the encoder does not know."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"{type(value).__name__} is not a type of JSON")


# JSON, so that SQL and other languages can read and make it. Sorted keys: the same request gives
# the same bytes, in whatever order it was written down.
_encoder = msgspec.json.Encoder(order="deterministic", enc_hook=_plain_text)
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


# How JSON writes a NUL; a text may also hold these six characters themselves. An expression,
# because `in` is slow where the first byte is frequent; most payloads have no such byte at all.
_NUL = re.compile(rb"\\u0000")


def encode_message(message: Message) -> bytes:
    """The frozen payload of a delivery. Files in it are base64."""
    return encode_with_spelling(message)[0]


def encode_with_spelling(message: Message) -> tuple[bytes, bytes]:
    """The payload, and its form with whole numbers as integers, by which requests are compared."""
    is_email = message.__class__ is Email
    data = message.variables if isinstance(message, Email) else message.data
    payload, plain = _encode(message, data)
    # The texts of an e-mail are checked by its route; its variables may be anything.
    if b"\\" in payload and (data or not is_email) and _NUL.search(payload):
        for name, value in msgspec.to_builtins(message).items():
            _refuse_nul(value, name)
    if plain is data:
        return payload, payload
    changed = {"variables" if is_email else "data": plain}
    return payload, _encoder.encode(replace(message, **changed))


def encode_result(returned: Json) -> bytes:
    """The return value of a handler or stage, as it is stored."""
    return _encode(returned, returned)[0]


def _encode(value: Json, data: Json) -> tuple[bytes, Json]:
    """The value as JSON; and its data, which may have any type, with whole numbers as integers."""
    try:
        return _encoder.encode(value), in_whole_numbers(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRequest("data", f"cannot be stored: {redact(str(error))}") from error


def _refuse_nul(value: Json, field: str) -> None:
    """NUL ends a text in some databases, and others refuse it."""
    if isinstance(value, str):
        if "\0" in value:
            raise InvalidRequest(field, "holds the control character U+0000")
    elif isinstance(value, dict):
        for key, item in value.items():
            _refuse_nul(key, field)
            _refuse_nul(item, f"{field}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_nul(item, f"{field}[{index}]")


def in_whole_numbers(value: Json) -> Json:
    """Floats that are whole numbers as integers; the value itself if it holds none.

    Refuses what would be read back as null, or by other programs as another number.
    """
    kind = value.__class__
    if kind is dict:
        changed = value
        for name, item in value.items():
            kind = item.__class__
            # Most values need no change: to see that here saves a call.
            if kind is str or kind is bool or item is None:
                continue
            if kind is int and SMALLEST_INT <= item <= LARGEST_INT:
                continue
            plain = _plain_number(item) if kind is float else in_whole_numbers(item)
            if plain is not item:
                changed = {**value} if changed is value else changed
                changed[name] = plain
        return changed
    if kind is list or kind is tuple:
        items = [in_whole_numbers(item) for item in value]
        return value if all(map(operator.is_, items, value)) else items
    if kind is int or kind is float:
        return _plain_number(value)
    if value is None or isinstance(value, str | int):
        return value
    # Such as a dataclass, which the encoder takes, too.
    built = msgspec.to_builtins(value, order="deterministic", enc_hook=_plain_text)
    plain = built if built.__class__ is kind else in_whole_numbers(built)
    return value if plain is built else plain


def _plain_number(value: float) -> float:
    if isinstance(value, int):
        if not SMALLEST_INT <= value <= LARGEST_INT:
            raise InvalidRequest("data", "holds a whole number of more than 64 bits")
        return value
    if not isfinite(value):
        raise InvalidRequest("data", f"{value} is not a number that JSON can hold")
    is_whole = value.is_integer() and SMALLEST_INT <= value <= LARGEST_INT
    return int(value) if is_whole else value


def decode_message(payload: bytes) -> Message:
    """The message of a stored payload."""
    return _decoder.decode(payload)


def decode_email(payload: bytes) -> Email:
    """The e-mail of a stored payload; InvalidRequest if it is another message."""
    message = decode_message(payload)
    if not isinstance(message, Email):
        raise InvalidRequest("payload", "is not an e-mail")
    return message
