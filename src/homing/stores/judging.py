"""Decides what a batch of writes does, from what is known of the store. Pure.

`judge` runs the writes in order over what is known and returns the answers and one effect per
record. What is not known is either assumed to be free (`assumes_free`: the store proves it when
it writes, by unique indexes and versions) or listed as missing: look it up and judge again, from
the start. So the order inside a batch is right however little was known at first.

There are three grades of knowledge. A store in memory knows everything (`is_complete`). A record
that was looked up is exact. A record that this process has claimed is known by its version
(`held`): the version proves the record, but not the counter of open children, which changes
without it. A write that needs the counter or the content asks for the record; all others do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from homing.domain.delivery import Delivery, Fact, Key
from homing.domain.writes import Count, Write
from homing.ports.commit import Put, PutAnswer
from homing.ports.records import Added, Existing

KeyName: TypeAlias = tuple[str, str]
"""The source and the key."""


class Known(Struct):
    """What is known, by id and by name. None: it is known not to be there."""

    deliveries: Mapping[str, Delivery | None] = {}
    keys: Mapping[KeyName, Key | None] = {}
    # Claimed by this process: proved by the version, without the counter of open children.
    held: Mapping[str, Delivery] = {}
    # Whether an id is taken, where no more than that was looked up.
    taken: Mapping[str, bool] = {}
    # Whatever is not in it does not exist.
    is_complete: bool = False
    # Whatever is not in it is taken to be free; the store proves that while it writes.
    assumes_free: bool = False


class Effect(Struct, gc=False):
    """One record: as it is stored, as it will be, and the writes with its content and attempts.

    `version` is that of `after`, whatever the delivery says. Not `is_exact`: `before` is the held
    record, and the counter of open children is not known; the store leaves it as it is. A record
    that was removed and added again in one batch has a `before`, and its first write is the add.
    """

    before: Delivery | None
    after: Delivery | None
    writes: list[Write]
    version: int
    is_exact: bool = True
    # Remove what is stored under this id first.
    is_replaced: bool = False


class Judged(Struct):
    """What to write, in this order: effects, keys, terms, counts, facts."""

    answers: list[list[PutAnswer]] = field(default_factory=list)
    effects: dict[str, Effect] = field(default_factory=dict)
    keys: dict[KeyName, Key] = field(default_factory=dict)
    # Keys whose owner is not known: put each only if it still belongs to its delivery.
    terms: list[Key] = field(default_factory=list)
    # Parents whose counter is not known: change it relatively, after the records.
    counts: list[Count] = field(default_factory=list)
    facts: dict[tuple[str, str], Fact] = field(default_factory=dict)
    # Writes with records of a layout, each with the names of its keys that were put.
    shown: list[tuple[Write, list[KeyName]]] = field(default_factory=list)
    wakes: bool = False
    # Look up: these records, whether these ids are taken, these keys.
    missing_records: set[str] = field(default_factory=set)
    missing_ids: set[str] = field(default_factory=set)
    missing_keys: set[KeyName] = field(default_factory=set)

    @property
    def is_complete(self) -> bool:
        """Nothing is missing: the answers are right, and what follows from them may be written."""
        return not (self.missing_records or self.missing_ids or self.missing_keys)


def judge(puts: Sequence[Put], known: Known) -> Judged:
    """Without effect on the store. Unless the result is complete, its answers mean nothing."""
    judging = _Judging(known)
    judged = judging.judged
    for put in puts:
        answers: list[PutAnswer] = []
        for write in put.writes:
            # A comprehension would be one more call for every put.
            answer = judging.add(write) if write.over is None else judging.save(write)
            answers.append(answer)
        judged.answers.append(answers)
        if put.facts:
            judging.note(put.facts)
    return judged


class _Judging:
    def __init__(self, known: Known) -> None:
        self._known = known
        self._assumes_free = known.is_complete or known.assumes_free
        self.judged = Judged()
        self._effects = self.judged.effects
        self._keys = self.judged.keys

    def add(self, write: Write) -> Added | Existing:
        """All of it or nothing; but a child that is taken is left out and not counted."""
        delivery = write.delivery
        delivery_id = delivery.id
        for key in write.keys:
            stored = self._key((key.source, key.key))
            if stored is not None and not _is_expired(stored, write.free_by_ms):
                self._look_for_keys(write)
                return Existing(stored.delivery_id, stored)
        if self._is_taken(delivery_id):
            self._look_for_keys(write)
            return Existing(delivery_id)
        for key in write.keys:
            self._keys[key.source, key.key] = key
        removed = self._effects.get(delivery_id)
        before = None if removed is None else removed.before
        # The record before its children, so that they see its id and its keys as taken.
        effect = Effect(before, delivery, [write], delivery.version, is_replaced=before is not None)
        self._effects[delivery_id] = effect
        if write.children or write.due_at_zero_ms is not None or delivery.open_children:
            effect.after = _counted(write, self._add_children(write))
        self._conclude(write, [(key.source, key.key) for key in write.keys])
        return Added(delivery_id)

    def save(self, write: Write) -> bool:
        delivery = write.delivery
        delivery_id = delivery.id
        effect = self._effects.get(delivery_id)
        if effect is None:
            held = self._known.held.get(delivery_id)
            if (
                held is not None
                and held.version == write.over
                # Looked up, because another write of the batch needs the record.
                and delivery_id not in self._known.deliveries
                and not _needs_record(write)
            ):
                # Most saves: of a held record, with nothing but the record and its attempts.
                effect = Effect(held, delivery, [write], held.version + 1, is_exact=False)
                self._effects[delivery_id] = effect
                if write.terms or write.facts or write.shown or write.wakes or write.count:
                    self._conclude(write, self._put_terms(write))
                return True
            effect = self._stored(delivery_id)
        elif not effect.is_exact and _needs_record(write):
            self.judged.missing_records.add(delivery_id)
        if effect is None or effect.after is None or effect.version != write.over:
            return False
        open_children = effect.after.open_children
        if write.children:
            open_children += self._add_children(write)
        self._effects[delivery_id] = effect
        effect.writes.append(write)
        effect.version += 1
        if write.removes:
            if effect.before is None and not self._knows(delivery_id):
                self.judged.missing_ids.add(delivery_id)
            effect.after = None
        else:
            effect.after = _counted(write, open_children) if effect.is_exact else delivery
        if write.terms or write.facts or write.shown or write.wakes or write.count:
            self._conclude(write, self._put_terms(write))
        return True

    def note(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            self.judged.facts[fact.kind, fact.key] = fact

    def _conclude(self, write: Write, names: list[KeyName]) -> None:
        if write.shown:
            self.judged.shown.append((write, names))
        if write.count is not None:
            self._count(write.count)
        if write.facts:
            self.note(write.facts)
        if write.wakes:
            self.judged.wakes = True

    def _add_children(self, write: Write) -> int:
        return sum([one.opens for one in write.children if type(self.add(one)) is Added])

    def _put_terms(self, write: Write) -> list[KeyName]:
        names = []
        for key in write.terms:
            name = key.source, key.key
            if name not in self._keys and name not in self._known.keys:
                if not self._known.is_complete:
                    self.judged.terms.append(key)
                continue
            stored = self._key(name)
            if stored is not None and stored.delivery_id == key.delivery_id:
                self._keys[name] = key
                names.append(name)
        return names

    def _count(self, count: Count) -> None:
        """The parent's version stays: its holder must not lose the claim because a child ended."""
        parent_id = count.parent_id
        effect = self._effects.get(parent_id)
        if effect is None:
            known = self._known
            if parent_id not in known.deliveries and not known.is_complete:
                self.judged.counts.append(count)
                return
            stored = known.deliveries.get(parent_id)
            if stored is None:
                return
            effect = Effect(stored, stored, [], stored.version)
        if not effect.is_exact:
            self.judged.counts.append(count)
            return
        parent = effect.after
        if parent is None:
            return
        self._effects[parent_id] = effect
        open_children = max(parent.open_children + count.delta, 0)
        due_at_ms = parent.due_at_ms
        if parent.state == "waiting":
            due_at_ms = count.at_ms if open_children == 0 else None
        effect.after = replace(parent, open_children=open_children, due_at_ms=due_at_ms)

    def _key(self, name: KeyName) -> Key | None:
        if name in self._keys:
            return self._keys[name]
        if name in self._known.keys:
            return self._known.keys[name]
        if not self._assumes_free:
            self.judged.missing_keys.add(name)
        return None

    def _look_for_keys(self, write: Write) -> None:
        """What is not written is not proved: a key that was assumed to be free may be stored, and
        be the reason to refuse the write."""
        known = self._known
        if not known.is_complete:
            names = [(key.source, key.key) for key in write.keys]
            self.judged.missing_keys.update(
                [name for name in names if name not in self._keys and name not in known.keys]
            )

    def _knows(self, delivery_id: str) -> bool:
        """Whether it is known if the id is taken, without writing it."""
        known = self._known
        return known.is_complete or delivery_id in known.deliveries or delivery_id in known.taken

    def _is_taken(self, delivery_id: str) -> bool:
        effect = self._effects.get(delivery_id)
        if effect is not None:
            return effect.after is not None
        known = self._known
        if delivery_id in known.deliveries:
            return known.deliveries[delivery_id] is not None
        if delivery_id in known.taken:
            return known.taken[delivery_id]
        if not self._assumes_free:
            self.judged.missing_ids.add(delivery_id)
        return False

    def _stored(self, delivery_id: str) -> Effect | None:
        known = self._known
        if delivery_id in known.deliveries or known.is_complete:
            stored = known.deliveries.get(delivery_id)
            return None if stored is None else Effect(stored, stored, [], stored.version)
        self.judged.missing_records.add(delivery_id)
        return None


def _needs_record(write: Write) -> bool:
    """Whether it needs the counter of open children or the content."""
    return (
        write.due_at_zero_ms is not None
        or write.removes
        or write.payload is not None
        or write.drop_results_but is not None
        or len(write.children) > 0
    )


def _counted(write: Write, open_children: int) -> Delivery:
    """The record with the store's own count of open children."""
    delivery = write.delivery
    if write.due_at_zero_ms is not None:
        due_at_ms = write.due_at_zero_ms if open_children == 0 else None
        return replace(delivery, open_children=open_children, due_at_ms=due_at_ms)
    if open_children == delivery.open_children:
        return delivery
    return replace(delivery, open_children=open_children)


def _is_expired(key: Key, by_ms: int) -> bool:
    return key.expires_at_ms is not None and key.expires_at_ms <= by_ms
