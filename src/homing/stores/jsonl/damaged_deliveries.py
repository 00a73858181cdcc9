"""Finds the deliveries that a damaged part of the files concerns, and holds those that are open."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from msgspec import ValidationError, convert

from homing.domain import transitions
from homing.domain.delivery import Delivery, Key
from homing.domain.failure import STORE_DAMAGED
from homing.domain.writes import Write, write_of_change
from homing.stores.jsonl.index import LogIndex
from homing.stores.jsonl.keys import own_key
from homing.stores.jsonl.lines import is_whole, looks_finished
from homing.stores.judging import KeyName

# A line states the id of its delivery twice: as what it shows first, and in the delivery.
_SHOWN_ID = re.compile(rb'^\s*\{"\w+":"([^"\\]+)"')
_KEPT_ID = re.compile(rb'"delivery":\{"id":"([^"\\]+)"')
# The same in each of several lines that damage has joined.
_ANY_ID = re.compile(rb'\{"\w+":"([^"\\]+)"')
_KEPT = re.compile(rb'"delivery":(?=\{)')
_MARKS = (b'"_homing":', b'"delivery":', b'"commit":', b',"sum":"', b'_at_ms":')
_FIRST = (b',"payload":"', b',"keyed":true')
_LATER = (b'"version":', b'"payload_no":', b'"cycle":')
# Damage that hides a line takes its feed and both ids in it, which stand further apart than this.
_MOST_ILLEGIBLE = 31
_ILLEGIBLE = re.compile("[\x00-\x1f\x7f-\x9f\ufffd]")


def concerned(index: LogIndex, data: bytes, start: int) -> tuple[set[str], dict[str, Delivery]]:
    """The ids of the deliveries that damaged bytes of the queue may concern; and those of them that
    are new and have no other line, as far as they can be read.

    A line without a readable id may concern any delivery that has no newer line, unless it was the
    first of a new one. Damage that runs over the end of a line may hide whole lines, which may
    concern any of them, too.
    """
    found, lost = set[str](), dict[str, Delivery]()
    lines = list(_lines(data))
    damaged = [line for line in lines if not is_whole(line.removesuffix(b"\n"))]
    is_hiding = 0 < len(damaged) < len(lines)  # a block of old lines lies over others
    for line in damaged:
        ids = map(_text, _ANY_ID.findall(line))
        named = {one for one in ids if one in index.records or one in lost}
        is_first = not named and _is_first(line)
        found |= named
        if is_first and (new := _lost(line)) is not None:
            lost[new.id] = new
        is_hiding |= _may_hide_lines(line) or (not named and not is_first and _is_ours(line))
    if is_hiding:
        found |= {one for one in index.places.packed if index.places.line_of(one) < start}
    return found | lost.keys(), lost


def _may_hide_lines(line: bytes) -> bool:
    """Whether so much of it is damaged that line feeds, and lines between them, may be gone."""
    return len(_ILLEGIBLE.findall(_text(line))) > _MOST_ILLEGIBLE


def named_in(index: LogIndex, data: bytes) -> set[str]:
    """The ids of deliveries that damaged bytes of the journal name: it may have removed them."""
    texts = re.findall(rb'"([^"\\]+)"', data)
    return {one for one in map(_text, texts) if one in index.records}


def writes_to_hold(
    index: LogIndex, ids: set[str], lost: dict[str, Delivery], now_ms: int
) -> list[Write]:
    """Add those that are lost, and hold those that are open. Ended ones stay unchanged."""
    taken: set[KeyName] = set()
    writes = [_write_of_lost(index, one, taken) for one in lost.values()]
    for delivery_id in sorted(ids):
        delivery = lost.get(delivery_id) or index.records.get(delivery_id)
        if delivery is not None and not delivery.is_terminal:
            change = transitions.hold_for_damage(delivery, now_ms=now_ms)
            writes.append(write_of_change(change))
    return writes


def is_held_for_damage(delivery: Delivery) -> bool:
    return delivery.failure is not None and delivery.failure.error_class == STORE_DAMAGED


def _lines(data: bytes) -> Iterator[bytes]:
    """Damage may also have created a line feed: then a line continues after it."""
    line = b""
    for part in data.splitlines(keepends=True):
        line += part
        if looks_finished(line):
            yield line
            line = b""
    if line.strip():
        yield line


def _ids(line: bytes) -> list[str]:
    """As it is read in each place."""
    return [_text(found[1]) for each in (_SHOWN_ID, _KEPT_ID) for found in each.finditer(line)]


def _is_first(line: bytes) -> bool:
    """Of a line whose id is not known: whether it is that of a new delivery, and not damaged.

    Amendments and replays have one of the first marks too, but state that they are later.
    """
    ids = _ids(line)
    if len(ids) > 1 and len(set(ids)) == 1:
        return True
    return any(mark in line for mark in _FIRST) and not any(mark in line for mark in _LATER)


def _lost(line: bytes) -> Delivery | None:
    """A delivery that has no other line, as far as it can still be read here."""
    kept = _KEPT.search(line)
    if kept is None:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(_text(line[kept.end() :]))
        return convert(found, Delivery)
    except (ValueError, ValidationError):
        return None


def _write_of_lost(index: LogIndex, delivery: Delivery, taken: set[KeyName]) -> Write:
    """With its key, unless that is taken."""
    keys: tuple[Key, ...] = ()
    name = delivery.source, delivery.key or ""
    is_free = name not in index.keys and name not in taken
    if delivery.key is not None and delivery.parent_id is None and is_free:
        keys = (own_key(delivery),)
        taken.add(name)
    return Write(delivery=delivery, keys=keys, payload=b"")


def _is_ours(line: bytes) -> bool:
    """Text without anything of our lines is another program's."""
    if any(mark in line for mark in _MARKS) or b"\0" in line:
        return True
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    return False


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
