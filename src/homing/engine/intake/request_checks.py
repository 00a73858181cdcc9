"""Checks the types and ranges of a request. Callers without a type checker may pass anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec.structs import replace

from homing.domain.delivery import DEFAULT_PRIORITY, FIRST_PRIORITY, LAST_PRIORITY, Fact
from homing.domain.errors import InvalidRequest
from homing.domain.message import Email, Event, Job, Message
from homing.engine.intake.request import NO_FACTS, NO_GENERATION, NO_SOURCE, Request

MAX_KEY_CHARS = 512
MAX_METADATA_CHARS = 8192
# A bigint, as SQL takes it.
MAX_GENERATION = 2**63 - 1
# The end of the year 9999, the last one that a datetime can show.
MAX_MS = 253_402_300_799_999


def plain_request(request: Request) -> Request:
    """The same request in plain values. InvalidRequest names the field that is wrong."""
    message = plain_message(request.message)
    key = request.key
    # Most requests have few options, and to see that is quicker than to check them all.
    if (
        (
            key is None
            or (key.__class__ is str and key.isprintable() and 0 < len(key) <= MAX_KEY_CHARS)
        )
        and request.source is NO_SOURCE
        and request.priority is DEFAULT_PRIORITY
        and request.delivery_id is None
        and request.generation is NO_GENERATION
        and request.facts is NO_FACTS
        and message is request.message
    ):
        return request
    checked = {name: check(name, getattr(request, name)) for name, check in _CHECKS.items()}
    return replace(request, message=message, **checked)


def plain_message(message: Message) -> Message:
    """An Email, an Event or a Job, with a text as its name. The route checks the rest."""
    if isinstance(message, Email):
        return message
    if isinstance(message, Event):
        text = plain_text("type", message.type)
        return message if text is message.type else replace(message, type=text)
    if isinstance(message, Job):
        text = plain_text("name", message.name)
        return message if text is message.name else replace(message, name=text)
    raise _not_a_message(message)


def _not_a_message(given: object) -> InvalidRequest:
    kind = type(given).__name__
    return InvalidRequest("message", f"must be an Email, an Event or a Job, not {kind}")


def plain_text(field: str, given: object) -> str:
    """A name or key: some text, not too long."""
    if given.__class__ is str and given.isprintable() and 0 < len(given) <= MAX_KEY_CHARS:
        return given
    text = _storable(field, given)
    if not 0 < len(text) <= MAX_KEY_CHARS:
        raise InvalidRequest(field, f"must have 1 to {MAX_KEY_CHARS} characters")
    return text


def plain_metadata(of_message: object, of_request: object) -> dict[str, str]:
    """Names and values of both, copied; the request's own win."""
    plain: dict[str, str] = {}
    for given in (of_message, of_request):
        if not isinstance(given, Mapping):
            raise InvalidRequest("metadata", f"must be a dict, not {type(given).__name__}")
        for name, value in given.items():
            field = f"metadata.{plain_text('metadata', name)}"
            plain[str.__str__(name)] = _storable(field, value)
    if sum(len(name) + len(value) for name, value in plain.items()) > MAX_METADATA_CHARS:
        raise InvalidRequest("metadata", f"is longer than {MAX_METADATA_CHARS} characters")
    return plain


def at_ms(field: str, given: object) -> int | None:
    """A time as milliseconds since 1970."""
    if given is None:
        return None
    if not isinstance(given, datetime):
        raise InvalidRequest(
            field, f"must be a datetime with a time zone, not {type(given).__name__}"
        )
    if given.utcoffset() is None:
        raise InvalidRequest(field, "has no time zone; use e.g. datetime.now(UTC) + timedelta(…)")
    since_1970_ms = round(given.timestamp() * 1000)
    if not 0 <= since_1970_ms <= MAX_MS:
        raise InvalidRequest(field, "must be in the years 1970 to 9999")
    return since_1970_ms


def _whole_number(field: str, given: object, least: int, most: int) -> int:
    if given.__class__ is not int:
        raise InvalidRequest(field, f"must be a whole number, not {type(given).__name__}")
    if not least <= given <= most:
        raise InvalidRequest(field, f"must be {least} to {most}")
    return given


def _source(field: str, given: object) -> str:
    return plain_text(field, given) if given != "" else ""


def _priority(field: str, given: object) -> int:
    return _whole_number(field, given, FIRST_PRIORITY, LAST_PRIORITY)


def whole_generation(field: str, given: object) -> int:
    return _whole_number(field, given, 0, MAX_GENERATION)


def _facts(field: str, given: object) -> tuple[Fact, ...]:
    if isinstance(given, list | tuple) and all(isinstance(each, Fact) for each in given):
        return given if given.__class__ is tuple else tuple(given)
    raise InvalidRequest(field, "must be a tuple of Fact values")


def _optional_text(field: str, given: object) -> str | None:
    return None if given is None else plain_text(field, given)


_CHECKS: dict[str, Callable[[str, object], object]] = {
    "key": _optional_text,
    "source": _source,
    "priority": _priority,
    "generation": whole_generation,
    "delivery_id": _optional_text,
    "facts": _facts,
}


def _storable(field: str, given: object) -> str:
    """A `str` that every store can hold. Template engines make subclasses, which are taken too."""
    if not isinstance(given, str):
        raise InvalidRequest(field, f"must be text, not {type(given).__name__}")
    if not given.isprintable():
        try:
            given.encode()
        except UnicodeEncodeError:
            raise InvalidRequest(field, "holds a lone surrogate") from None
        if "\0" in given:
            raise InvalidRequest(field, "holds a NUL character")
    return given if given.__class__ is str else str.__str__(given)
