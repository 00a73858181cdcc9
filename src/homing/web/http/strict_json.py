"""Strict JSON into its type: no repeated names, no deep nesting, no numbers that others misread.

msgspec refuses what is not JSON, unknown fields and wrong types. But of two equal names it silently
keeps the last one, and it has no limit for whole numbers. Both are checked here.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec

from homing.web.http.problems import BadRequest

T = TypeVar("T")

MAX_DEPTH = 32
# Beyond it JavaScript and many other programs read a different number.
MAX_WHOLE_NUMBER = 2**53
# Of any type, so a template is given the number as the caller wrote it.
FREE_FORM = "variables"
_COLON_ESCAPED = re.compile(rb"\\u003[aA]")
_PLACE = re.compile(r"(?P<problem>.*) - at `(?:key in )?\$\.?(?P<place>.*)`", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")

_anything = msgspec.json.Decoder()


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    made = _decoders.get(kind)
    if made is None:
        made = _decoders[kind] = msgspec.json.Decoder(kind)
    return made


def parse(body: bytes, kind: type[T]) -> T:
    """The decoded `body`; BadRequest names the field that is wrong."""
    try:
        value: T = _typed(body, kind)
        check(body)
    except msgspec.ValidationError as error:
        place, problem = _named(str(error))
        raise BadRequest(problem, _with_key(body, place), 422) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadRequest("is not valid JSON in UTF-8", "body") from None
    except RecursionError:
        raise _too_deep() from None
    return value


def _typed(body: bytes, kind: type[T]) -> T:
    try:
        value: T = _decoder(kind).decode(body)
    except msgspec.ValidationError as error:
        if "got `float`" not in str(error):
            raise
        # In JSON 1.0 is the whole number 1; msgspec takes it for another type.
        value = msgspec.convert(_with_whole_numbers(_anything.decode(body)), kind)
    return value


def _with_whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_WHOLE_NUMBER:
        return int(value)
    if isinstance(value, list):
        return [_with_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {
            name: item if name == FREE_FORM else _with_whole_numbers(item)
            for name, item in value.items()
        }
    return value


def check(body: bytes) -> None:
    """Valid JSON is also unambiguous: each name once, whole numbers within 2^53, not too deep.

    Every member has one colon outside its texts. So if the body has as many colons as the
    decoded value has members and colons in its texts, then decoding dropped no member. An
    escaped colon makes the sum wrong; then, which is rare, the slow and certain check runs.
    """
    try:
        value = _anything.decode(body)
        colons = _colons_in_object(value, 1) if value.__class__ is dict else _colons(value, 1)
    except _Flaw as flaw:
        raise BadRequest(flaw.problem, "".join(reversed(flaw.place)).lstrip("."), 422) from None
    if colons != body.count(b":") or (b"\\u003" in body and _COLON_ESCAPED.search(body)):
        json.loads(body, object_pairs_hook=_each_once)


class _Flaw(Exception):
    """What is wrong; the place is collected on the way out."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.place: list[str] = []


def _colons(value: Any, depth: int) -> int:
    kind = type(value)
    if kind is str:
        return int(value.count(":"))
    if kind is dict:
        return _colons_in_object(value, depth)
    if kind is list:
        if depth > MAX_DEPTH:
            raise _too_deep()
        total = 0
        for index, item in enumerate(value):
            try:
                total += _colons(item, depth + 1)
            except _Flaw as flaw:
                flaw.place.append(f"[{index}]")
                raise
        return total
    if kind is int and not -MAX_WHOLE_NUMBER <= value <= MAX_WHOLE_NUMBER:
        raise _Flaw("is a whole number beyond 2^53")
    return 0


def _colons_in_object(value: dict[str, Any], depth: int) -> int:
    if depth > MAX_DEPTH:
        raise _too_deep()
    total = len(value)
    for name, item in value.items():
        total += name.count(":")
        if item.__class__ is str:
            total += item.count(":")
            continue
        try:
            total += _colons(item, depth + 1)
        except _Flaw as flaw:
            flaw.place.append(f".{name}")
            raise
    return total


def _too_deep() -> BadRequest:
    return BadRequest(f"is nested deeper than {MAX_DEPTH}", "body")


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise BadRequest("is given twice", name)
        seen.add(name)


def _named(message: str) -> tuple[str, str]:
    """Where it is wrong and how, out of msgspec's sentence."""
    found = _PLACE.fullmatch(message)
    problem, place = (found["problem"], found["place"]) if found else (message, "")
    about = _UNKNOWN.fullmatch(problem) or _MISSING.fullmatch(problem)
    if about:
        place = f"{place}.{about['name']}" if place else about["name"]
        problem = (
            "there is no such field" if problem.startswith("Object contains") else "is missing"
        )
    if problem.startswith("Invalid enum value"):
        problem = "is not one of the allowed words"
    return place or "body", problem.replace("`", "")


def _with_key(body: bytes, place: str) -> str:
    """msgspec says `headers[...]` for any value of an object; this finds the name."""
    within, dots, _ = place.partition("[...]")
    if not dots:
        return place
    value = _anything.decode(body)
    for name, index in re.findall(r"(\w+)|\[(\d+)\]", within):
        value = value[name] if name else value[int(index)]
    wrong = (name for name, item in value.items() if not isinstance(item, str))
    return f"{within}.{next(wrong, '*')}"
