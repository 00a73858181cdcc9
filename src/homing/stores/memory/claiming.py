"""Claims: everything that one claim takes is changed at once."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from homing.domain.delivery import Delivery
from homing.ports import Claim, Claimed, Renewal
from homing.stores.memory.disk import MemoryDisk


def claim_due(disk: MemoryDisk, claim: Claim) -> list[Claimed]:
    before = take_due(disk, claim)
    after = as_claimed(before, claim)
    if after:
        disk.put_claimed(before, after, claim.worker, claim.lease_until_ms)
    if disk.shown.by_delivery:
        for delivery in after:
            disk.shown.claim(delivery.id, claim.now_ms)
    contents = disk.contents
    return [Claimed(delivery, contents[delivery.id]) for delivery in after]


def as_claimed(taken: Sequence[Delivery], claim: Claim) -> list[Delivery]:
    """The transition `claim`, written out: a test compares them."""
    return [
        replace(
            delivery,
            state="in_flight",
            holder=claim.worker,
            due_at_ms=claim.lease_until_ms,
            claimed_at_ms=claim.now_ms,
            unsettled_claims=delivery.unsettled_claims + 1,
            version=delivery.version + 1,
        )
        for delivery in taken
    ]


def renew_all(disk: MemoryDisk, renewal: Renewal) -> list[bool]:
    answers = are_held(disk, renewal)
    for (delivery_id, _), is_held in zip(renewal.held, answers, strict=True):
        if is_held:
            disk.renew(delivery_id, renewal.lease_until_ms)
    return answers


def are_held(disk: MemoryDisk, renewal: Renewal) -> list[bool]:
    return [_is_held(disk.deliveries.get(one), renewal, version) for one, version in renewal.held]


def _is_held(stored: Delivery | None, renewal: Renewal, version: int) -> bool:
    if stored is None or stored.state != "in_flight":
        return False
    return (stored.holder, stored.version) == (renewal.holder, version)


def take_due(disk: MemoryDisk, claim: Claim) -> list[Delivery]:
    """What is due, out of the due queue: store it as claimed, or add it there again."""
    taken: list[Delivery] = []
    left: list[Delivery] = []
    while len(taken) < claim.limit:
        ids = disk.due.take(claim.queues, claim.now_ms, claim.limit - len(taken))
        found = [disk.deliveries[delivery_id] for delivery_id in ids]
        held = [
            delivery
            for delivery in found
            if delivery.state == "in_flight" and delivery.holder in claim.alive_holders
        ]
        if not held:
            taken += found
            break
        left += held
        are_held = {delivery.id for delivery in held}
        taken += [delivery for delivery in found if delivery.id not in are_held]
    number = _affordable(disk, taken, claim.limit_bytes)
    for delivery in left + taken[number:]:
        disk.due.add(delivery)
    return taken[:number]


def _affordable(disk: MemoryDisk, taken: list[Delivery], limit_bytes: int | None) -> int:
    """As many as fit into the limit of bytes, and always the first."""
    if limit_bytes is None:
        return len(taken)
    sizes = disk.payload_sizes([delivery.id for delivery in taken])
    if sum(sizes) <= limit_bytes:
        return len(taken)
    left_bytes = limit_bytes
    for nth, size in enumerate(sizes):
        left_bytes -= size
        if left_bytes < 0:
            return max(nth, 1)
    return len(taken)
