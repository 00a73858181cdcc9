"""Idempotency keys over time: one delivery each, kept while it is open, free after the term (I3).

The term of a key begins when its delivery ends. The checks compute it from the stored delivery
and never from the stored key, so that a wrong expiry is found.
"""

from __future__ import annotations

from collections.abc import Mapping

from homing.domain.delivery import Delivery, Key
from homing.domain.writes import Write
from homing.ports import Added, Existing
from tests.simulation.simulator.findings import Findings
from tests.simulation.simulator.watched_disk import WatchedDisk

Name = tuple[str, str]


class KeyChecks:
    """Sees every key that is asked for, taken and purged."""

    def __init__(self, disk: WatchedDisk, findings: Findings) -> None:
        self._disk = disk
        self._breach = findings.breach
        # Whom each key stands for now, and all whom it ever stood for.
        self.owner: dict[Name, str] = {}
        self.owners: dict[Name, list[str]] = {}

    def asked(self, new: Write, answer: Added | Existing) -> None:
        """A caller asked for these keys at the new delivery's time of creation."""
        at_ms = new.delivery.created_at_ms
        if isinstance(answer, Added):
            for key in new.keys:
                self._taken(key, new.delivery.id, at_ms)
        elif answer.key is not None:
            name = answer.key.source, answer.key.key
            if self.is_free(name, at_ms):
                self._breach("I3", name[1], "refused, though its term is over")

    def purged(self, before: Mapping[Name, Key], at_ms: int) -> None:
        for name, key in before.items():
            if name in self._disk.keys:
                continue
            if not self.is_free(name, at_ms):
                self._breach("I3", key.delivery_id, f"its key {name[1]} was purged too early")
            self.owner.pop(name, None)

    def is_free(self, name: Name, at_ms: int) -> bool:
        """By this time the delivery has ended and the term of the key is over."""
        owner = self.owner.get(name)
        if owner is None:
            return True
        delivery = self._delivery(owner)
        if delivery is None or delivery.ended_at_ms is None or delivery.key_term_s is None:
            return False
        if name != (delivery.source, delivery.key):
            return False
        return delivery.ended_at_ms + round(delivery.key_term_s * 1000) <= at_ms

    def _taken(self, key: Key, delivery_id: str, at_ms: int) -> None:
        name = key.source, key.key
        if not self.is_free(name, at_ms):
            text = f"key {key.key} was taken while it stood for {self.owner[name]}"
            self._breach("I3", delivery_id, text)
        self.owner[name] = delivery_id
        self.owners.setdefault(name, []).append(delivery_id)

    def _delivery(self, delivery_id: str) -> Delivery | None:
        stored = self._disk.deliveries.get(delivery_id)
        return self._disk.removed.get(delivery_id) if stored is None else stored
