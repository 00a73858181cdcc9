"""Execute Writes, each all or nothing, in the order that `domain/writes` sets down."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain.delivery import Content, Delivery, Key
from homing.domain.writes import Count, Write
from homing.ports import Added, Existing
from homing.stores.memory.disk import MemoryDisk


def add_one(disk: MemoryDisk, write: Write) -> Added | Existing:
    """Most writes have few of the parts: what is not there costs no call."""
    delivery, keys = write.delivery, disk.keys
    delivery_id = delivery.id
    for key in write.keys:
        name = key.source, key.key
        if name in keys and not _is_free(keys[name], write.free_by_ms):
            return Existing(keys[name].delivery_id, keys[name])
    if delivery_id in disk.deliveries:
        return Existing(delivery_id)
    for key in write.keys:
        disk.put_key(key)
    disk.put_content(delivery_id, Content(write.payload or b"", write.results))
    # Itself first, so that its children see its id and keys as taken.
    is_settled = write.due_at_zero_ms is None and not delivery.open_children
    disk.put(delivery if is_settled else _counted(write, 0, delivery.version))
    if write.children:
        disk.put(_counted(write, _add_children(disk, write), delivery.version))
    if write.shown:
        disk.shown.put(write.shown, delivery_id, [(key.source, key.key) for key in write.keys])
    if write.facts:
        disk.note(write.facts)
    if write.wakes:
        disk.may_be_due = True
    return Added(delivery_id)


def save_one(disk: MemoryDisk, write: Write) -> bool:
    """As in `add_one`, what is not there costs no call."""
    delivery_id = write.delivery.id
    stored = disk.deliveries.get(delivery_id)
    if stored is None or stored.version != write.over:
        return False
    open_children = stored.open_children
    if write.children:
        open_children += _add_children(disk, write)
    if write.removes:
        disk.remove(delivery_id)
        for number in tuple(disk.attempts.get(delivery_id, ())):
            disk.drop_attempt(delivery_id, number)
    else:
        _put(disk, write, open_children)
    if write.terms or write.shown:
        disk.shown.put(write.shown, delivery_id, _put_terms(disk, write))
    if write.count is not None:
        _count(disk, write.count)
    if write.facts:
        disk.note(write.facts)
    if write.wakes:
        disk.may_be_due = True
    return True


def _put(disk: MemoryDisk, write: Write, open_children: int) -> None:
    """The record over the stored one, with what it carries."""
    delivery = write.delivery
    if write.results or write.payload is not None or write.drop_results_but is not None:
        disk.put_content(delivery.id, _content(disk.contents[delivery.id], write))
    if write.attempts:
        disk.put_attempts(delivery.route, write.attempts)
    if write.due_at_zero_ms is None and open_children == delivery.open_children:
        disk.put(replace(delivery, version=delivery.version + 1))
    else:
        disk.put(_counted(write, open_children, delivery.version + 1))


def _is_free(key: Key, by_ms: int) -> bool:
    return key.expires_at_ms is not None and key.expires_at_ms <= by_ms


def _put_terms(disk: MemoryDisk, write: Write) -> list[tuple[str, str]]:
    """The terms of those keys that still belong to this delivery."""
    keys_put = []
    for key in write.terms:
        name = key.source, key.key
        if name in disk.keys and disk.keys[name].delivery_id == write.delivery.id:
            disk.put_key(key)
            keys_put.append(name)
    return keys_put


def _add_children(disk: MemoryDisk, write: Write) -> int:
    """How many of them are newly open."""
    return sum([child.opens for child in write.children if type(add_one(disk, child)) is Added])


def _counted(write: Write, open_children: int, version: int) -> Delivery:
    """The record with the store's own count of open children."""
    delivery = write.delivery
    if write.due_at_zero_ms is not None:
        due_at_ms = write.due_at_zero_ms if open_children == 0 else None
        return replace(delivery, version=version, open_children=open_children, due_at_ms=due_at_ms)
    if open_children != delivery.open_children:
        return replace(delivery, version=version, open_children=open_children)
    return delivery if version == delivery.version else replace(delivery, version=version)


def _content(before: Content, write: Write) -> Content:
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
