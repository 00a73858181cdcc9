"""Applies what was judged to the disk in memory: no rule, no decision."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from homing.domain.delivery import Content, Delivery
from homing.domain.writes import Write
from homing.stores.judging import Effect, Judged
from homing.stores.memory.disk import MemoryDisk


def apply(disk: MemoryDisk, judged: Judged) -> None:
    for delivery_id, effect in judged.effects.items():
        _apply(disk, delivery_id, effect)
    for key in judged.keys.values():
        disk.put_key(key)
    for write, names in judged.shown:
        disk.shown.put(write.shown, write.delivery.id, names)
    disk.note(judged.facts.values())
    if judged.wakes:
        disk.may_be_due = True


def _apply(disk: MemoryDisk, delivery_id: str, effect: Effect) -> None:
    after, writes = effect.after, effect.writes
    if effect.before is not None and (after is None or effect.is_replaced):
        disk.remove(delivery_id)
        for number in tuple(disk.attempts.get(delivery_id, ())):
            disk.drop_attempt(delivery_id, number)
    if after is None:
        return
    content = changed_content(effect, disk.contents)
    if content is not None:
        disk.put_content(delivery_id, content)
    for write in writes:
        if write.attempts:
            disk.put_attempts(write.delivery.route, write.attempts)
    disk.put(record_after(effect, after))


def record_after(effect: Effect, after: Delivery) -> Delivery:
    """The record as it is stored, with its version."""
    return after if after.version == effect.version else replace(after, version=effect.version)


def changed_content(effect: Effect, stored: Mapping[str, Content]) -> Content | None:
    """The content after these writes; None: they leave it as it is stored."""
    content: Content | None = None
    for write in effect.writes:
        if write.over is None:
            content = Content(write.payload or b"", write.results)
        elif write.results or write.payload is not None or write.drop_results_but is not None:
            content = _content(content or stored[write.delivery.id], write)
    return content


def _content(before: Content, write: Write) -> Content:
    payload, results = before.payload, before.results
    if (kept := write.drop_results_but) is not None:
        results = {name: result for name, result in results.items() if name.startswith(kept)}
    if write.keep_payload_as is not None:
        results = {**results, write.keep_payload_as: payload}
    if write.payload is not None:
        payload = write.payload
    return Content(payload, {**results, **write.results})
