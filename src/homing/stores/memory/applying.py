"""Applies what was judged to the disk in memory: no rule, no decision."""

from __future__ import annotations

from homing.stores.effects import content_after, record_after
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
    record = record_after(effect)
    if effect.before is not None and (record is None or effect.is_replaced):
        disk.remove(delivery_id)
        for number in tuple(disk.attempts.get(delivery_id, ())):
            disk.drop_attempt(delivery_id, number)
    if record is None:
        return
    content = content_after(effect, disk.contents)
    if content is not None:
        disk.put_content(delivery_id, content)
    for write in effect.writes:
        if write.attempts:
            disk.put_attempts(write.delivery.route, write.attempts)
    disk.put(record)
