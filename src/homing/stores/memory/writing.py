"""Execute Writes, each all or nothing, in the order that `domain/writes` sets down."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain.delivery import Content, Delivery
from homing.domain.writes import Count, Write
from homing.ports import Added, Existing
from homing.stores.memory.disk import MemoryDisk


def add_one(disk: MemoryDisk, write: Write) -> Added | Existing:
    taken = _taken(disk, write)
    if taken is not None:
        return taken
    delivery = write.delivery
    for key in write.keys:
        disk.keys[key.source, key.key] = key
    disk.contents[delivery.id] = Content(write.payload or b"", write.results)
    # Itself first, so that its children see its id and keys as taken.
    is_settled = write.due_at_zero_ms is None and not delivery.open_children
    disk.put(delivery if is_settled else _counted(write, 0, delivery.version))
    if write.children:
        disk.put(_counted(write, _add_children(disk, write), delivery.version))
    if write.shown:
        disk.shown.put(write.shown, delivery.id, [(key.source, key.key) for key in write.keys])
    _finish(disk, write)
    return Added(delivery.id)


def save_one(disk: MemoryDisk, write: Write) -> bool:
    delivery_id = write.delivery.id
    stored = disk.deliveries.get(delivery_id)
    if stored is None or stored.version != write.over:
        return False
    open_children = stored.open_children + _add_children(disk, write)
    if write.removes:
        disk.remove(delivery_id)
        disk.attempts.pop(delivery_id, None)
    else:
        disk.contents[delivery_id] = _content(disk.contents[delivery_id], write)
        if write.attempts:
            ledger = disk.attempts.setdefault(delivery_id, {})
            for attempt in write.attempts:
                ledger[attempt.number] = (write.delivery.route, attempt)
        disk.put(_counted(write, open_children, stored.version + 1))
    keys_put = []
    for key in write.terms:
        name = key.source, key.key
        if name in disk.keys and disk.keys[name].delivery_id == delivery_id:
            disk.keys[name] = key
            keys_put.append(name)
    if write.shown:
        disk.shown.put(write.shown, delivery_id, keys_put)
    if write.count is not None:
        _count(disk, write.count)
    _finish(disk, write)
    return True


def _taken(disk: MemoryDisk, write: Write) -> Existing | None:
    for key in write.keys:
        name = key.source, key.key
        if name not in disk.keys:
            continue
        stored = disk.keys[name]
        if stored.expires_at_ms is None or stored.expires_at_ms > write.free_by_ms:
            return Existing(stored.delivery_id, stored)
    return Existing(write.delivery.id) if write.delivery.id in disk.deliveries else None


def _add_children(disk: MemoryDisk, write: Write) -> int:
    """How many of them are newly open."""
    return sum([child.opens for child in write.children if type(add_one(disk, child)) is Added])


def _counted(write: Write, open_children: int, version: int) -> Delivery:
    """The record with the store's own count of open children."""
    delivery = write.delivery
    due_at_ms = delivery.due_at_ms
    if write.due_at_zero_ms is not None:
        due_at_ms = write.due_at_zero_ms if open_children == 0 else None
    if (version, open_children, due_at_ms) == (
        delivery.version,
        delivery.open_children,
        delivery.due_at_ms,
    ):
        return delivery
    return replace(delivery, version=version, open_children=open_children, due_at_ms=due_at_ms)


def _content(before: Content, write: Write) -> Content:
    if not write.changes_content:
        return before
    payload, results = before.payload, before.results
    if (kept := write.drop_results_but) is not None:
        results = {name: result for name, result in results.items() if name.startswith(kept)}
    if write.keep_payload_as is not None:
        results = {**results, write.keep_payload_as: payload}
    if write.payload is not None:
        payload = write.payload
    return Content(payload, {**results, **write.results})


def _count(disk: MemoryDisk, count: Count) -> None:
    """The parent's version stays: its holder must not lose the claim because a child ended."""
    parent = disk.deliveries.get(count.parent_id)
    if parent is None:
        return
    open_children = max(parent.open_children + count.delta, 0)
    due_at_ms = parent.due_at_ms
    if parent.state == "waiting":
        due_at_ms = count.at_ms if open_children == 0 else None
    disk.put(replace(parent, open_children=open_children, due_at_ms=due_at_ms))


def _finish(disk: MemoryDisk, write: Write) -> None:
    if write.facts:
        disk.note(write.facts)
    if write.wakes:
        disk.tell()
