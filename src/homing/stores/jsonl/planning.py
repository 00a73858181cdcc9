"""Turns what was judged, and what a purge selects, into a commit. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from homing.domain.delivery import Delivery, Key
from homing.ports import PurgeKind
from homing.stores.effects import content_after, record_after
from homing.stores.jsonl.commit import Commit
from homing.stores.jsonl.index import LogIndex
from homing.stores.jsonl.keys import own_key
from homing.stores.jsonl.lines import JournalRecord, QueueRecord
from homing.stores.judging import Effect, Judged, KeyName
from homing.stores.memory.disk import LedgerRow

_FIELDS: dict[PurgeKind, str] = {
    "delivery": "gone",
    "payload": "emptied",
    "attempts": "attempts_gone",
    "keys": "keys_gone",
    "facts": "facts_gone",
}


def commit_of_puts(index: LogIndex, judged: Judged) -> Commit:
    lines: list[QueueRecord] = []
    beside = JournalRecord()
    for delivery_id, effect in judged.effects.items():
        record = record_after(effect)
        if effect.before is not None and (record is None or effect.is_replaced):
            beside.gone.append(delivery_id)
            beside.attempts_gone += [(delivery_id, n) for n in index.attempts.get(delivery_id, ())]
        if record is not None:
            lines.append(_line(index, effect, record, judged.keys))
            for write in effect.writes:
                if write.attempts:
                    route = write.delivery.route
                    beside.attempts += [LedgerRow(route, attempt) for attempt in write.attempts]
    # A key that is a delivery's own follows from its line; most are.
    keyed = [line.delivery for line in lines if line.keyed]
    if len(keyed) < len(judged.keys):
        own = {(delivery.source, delivery.key) for delivery in keyed}
        beside.keys = [key for name, key in judged.keys.items() if name not in own]
    for name, fact in judged.facts.items():
        if fact.value is None:
            beside.facts_gone.append(name)
        else:
            beside.facts.append(fact)
    return Commit(lines, beside)


def commit_of_purge(what: PurgeKind, places: Sequence[tuple[Any, ...]]) -> Commit:
    """A record lies under its id, its name, or an id and a number."""
    commit = Commit()
    found = [place[0] if len(place) == 1 else place for place in places]
    setattr(commit.beside, _FIELDS[what], found)
    return commit


def _line(
    index: LogIndex, effect: Effect, delivery: Delivery, keys: Mapping[KeyName, Key]
) -> QueueRecord:
    line = QueueRecord(0, 0, delivery, versions=len(effect.writes) or 1)
    if keys and delivery.key is not None:
        key = keys.get((delivery.source, delivery.key))
        line.keyed = key is not None and key == own_key(delivery)
    content = content_after(effect, index.contents)
    if content is None:
        return line
    writes, delivery_id = effect.writes, delivery.id
    is_new = writes[0].over is None
    # An earlier line of the same delivery may have what was removed since: nothing of it counts.
    is_whole = effect.is_replaced or delivery_id in index.gone or delivery_id in index.emptied
    if is_new or is_whole or any(write.payload is not None for write in writes):
        line.payload = content.payload
    if content.results or is_whole or not is_new:
        line.results = content.results
    return line
