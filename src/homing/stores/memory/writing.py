"""The two writes, each on one item: add unless taken, and save over the version that was read."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain.delivery import Change, Content, Delivery, Key, New
from homing.domain.writes import write_of_change
from homing.ports import Added, Existing
from homing.stores.memory.disk import MemoryDisk

KEPT_PAYLOAD = "payload."
"""Replaced payloads stay readable among the results as `payload.<number>`."""


def add_one(disk: MemoryDisk, new: New) -> Added | Existing:
    """All of it or nothing. A child that is taken is left out, as in `save_one`."""
    delivery = new.delivery
    taken = _taken(disk, new)
    if taken is not None:
        return taken
    for key in new.keys:
        disk.keys[key.source, key.key] = key
    disk.contents[delivery.id] = Content(new.payload)
    # Itself first, so that its children see its id and keys as taken.
    disk.put(_settled(delivery, 0, delivery.updated_at_ms))
    if new.children:
        open_children = _add_children(disk, new.children)
        disk.put(_settled(delivery, open_children, delivery.updated_at_ms))
    disk.note(new.facts)
    return Added(delivery.id)


def _taken(disk: MemoryDisk, new: New) -> Existing | None:
    for key in new.keys:
        stored = disk.keys.get((key.source, key.key))
        if stored is not None and not _is_expired(stored, new.delivery.created_at_ms):
            return Existing(stored.delivery_id, stored)
    return Existing(new.delivery.id) if new.delivery.id in disk.deliveries else None


def _is_expired(key: Key, now_ms: int) -> bool:
    return key.expires_at_ms is not None and key.expires_at_ms <= now_ms


def _add_children(disk: MemoryDisk, children: tuple[New, ...]) -> int:
    """How many of them are newly open."""
    return sum(
        isinstance(add_one(disk, child), Added) and not child.delivery.is_terminal
        for child in children
    )


def _settled(delivery: Delivery, open_children: int, now_ms: int) -> Delivery:
    """With its true count of open children; waiting, it is due exactly when there are none."""
    due_at_ms = delivery.due_at_ms
    if delivery.state == "waiting":
        due_at_ms = now_ms if open_children == 0 else None
    return replace(delivery, open_children=open_children, due_at_ms=due_at_ms)


def save_one(disk: MemoryDisk, change: Change) -> bool:
    """All of it, if the stored version is the one that was read; else nothing."""
    delivery = change.delivery
    stored = disk.deliveries.get(delivery.id)
    if stored is None or stored.version != delivery.version:
        return False
    open_children = stored.open_children + _add_children(disk, change.children)
    if change.forget:
        disk.remove(delivery.id)
        disk.attempts.pop(delivery.id, None)
    else:
        disk.contents[delivery.id] = _content(disk.contents[delivery.id], change, stored)
        ledger = disk.attempts.setdefault(delivery.id, {}) if change.ended else {}
        for attempt in change.ended:
            ledger[attempt.number] = (delivery.route, attempt)
        written = replace(delivery, version=delivery.version + 1)
        disk.put(_settled(written, open_children, delivery.updated_at_ms))
    for key in write_of_change(change).terms:
        name = key.source, key.key
        if name in disk.keys and disk.keys[name].delivery_id == delivery.id:
            disk.keys[name] = key
    _tell_parent(disk, change)
    disk.note(change.facts)
    return True


def _content(before: Content, change: Change, stored: Delivery) -> Content:
    if not (change.results or change.drop_results or change.payload is not None):
        return before
    results = before.results
    if change.drop_results:
        # What a stage made is dropped; what somebody asked for is history and stays.
        results = {n: r for n, r in results.items() if n.startswith(KEPT_PAYLOAD)}
    payload = before.payload
    if change.payload is not None:
        results = {**results, f"{KEPT_PAYLOAD}{stored.payload_no}": before.payload}
        payload = change.payload
    return Content(payload, {**results, **change.results})


def _tell_parent(disk: MemoryDisk, change: Change) -> None:
    """The parent's version stays: a child that ends must not cost its parent's holder the claim."""
    parent_id = change.delivery.parent_id
    parent = disk.deliveries.get(parent_id) if parent_id is not None else None
    if parent is None or change.child_delta == 0:
        return
    open_children = max(parent.open_children + change.child_delta, 0)
    disk.put(_settled(parent, open_children, change.delivery.updated_at_ms))
