"""Where two answers of two stores differ: the first place, by its path, with both values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from homing.domain.delivery import Delivery

Difference: TypeAlias = tuple[str, str, object, object]
"""(id of the delivery around it, path, found, wanted)"""

SHOWN = 160


def first_difference(found: object, wanted: object) -> tuple[str, str]:
    """The delivery that it is about, if any, and what differs, in words."""
    subject, path, real, expected = next(_differences("", "", found, wanted))
    return subject, f"{path or 'answer'} is {repr(real)[:SHOWN]}, not {repr(expected)[:SHOWN]}"


def _differences(subject: str, path: str, found: object, wanted: object) -> Iterator[Difference]:
    if found == wanted:
        return
    if isinstance(found, Delivery):
        subject = found.id
    if isinstance(found, Struct) and type(found) is type(wanted):
        for name in found.__struct_fields__:
            yield from _differences(
                subject, f"{path}.{name}", getattr(found, name), getattr(wanted, name)
            )
    elif isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
        for nth, (one, other) in enumerate(zip(found, wanted, strict=False)):
            yield from _differences(subject, f"{path}[{nth}]", one, other)
        if len(found) != len(wanted):
            yield subject, f"length of {path}", len(found), len(wanted)
    else:
        yield subject, path, found, wanted
