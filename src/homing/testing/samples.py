"""Builders of small, valid values: a test states only the fields that matter to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from homing.domain.delivery import Attempt, Change, Delivery, Fact, Key, New
from homing.ports import Claim

NOW_MS = 1_800_000_000_000
LEASE_MS = 30_000
ROUTE = "mail"
QUEUE = "mail/send"
SOURCE = "shop"


def delivery(delivery_id: str, **fields: Any) -> Delivery:
    """A pending delivery, due now."""
    values: dict[str, Any] = {
        "route": ROUTE,
        "queue": QUEUE,
        "stage": "send",
        "created_at_ms": NOW_MS,
        "updated_at_ms": NOW_MS,
        "due_at_ms": NOW_MS,
        "source": SOURCE,
    }
    return Delivery(id=delivery_id, **(values | fields))


def key(name: str, delivery_id: str, **fields: Any) -> Key:
    return Key(**({"source": SOURCE, "key": name, "delivery_id": delivery_id} | fields))


def new(
    delivery_id: str,
    *,
    payload: bytes = b"hello",
    keys: Iterable[Key] = (),
    children: Iterable[New] = (),
    facts: Iterable[Fact] = (),
    **fields: Any,
) -> New:
    """A delivery to add; `fields` are those of the delivery."""
    return New(delivery(delivery_id, **fields), payload, tuple(keys), tuple(children), tuple(facts))


def keyed(delivery_id: str, name: str, **fields: Any) -> New:
    """A delivery to add under the key `name`, which never expires."""
    return new(delivery_id, key=name, keys=(key(name, delivery_id),), **fields)


def many(count: int, *, prefix: str = "d", **fields: Any) -> list[New]:
    """Deliveries whose ids sort in the order of their making."""
    return [new(f"{prefix}{number:05}", **fields) for number in range(count)]


def child(delivery_id: str, parent_id: str, **fields: Any) -> New:
    return new(delivery_id, parent_id=parent_id, **fields)


def claim(worker: str = "w1", *, at_ms: int = NOW_MS, **fields: Any) -> Claim:
    """A claim of up to 100 deliveries of the usual queue, for the usual lease."""
    values: dict[str, Any] = {
        "worker": worker,
        "now_ms": at_ms,
        "lease_until_ms": at_ms + LEASE_MS,
        "limit": 100,
        "queues": (QUEUE,),
    }
    return Claim(**(values | fields))


def attempt(delivery_id: str, number: int = 1, **fields: Any) -> Attempt:
    """An attempt that failed now."""
    values: dict[str, Any] = {"stage": "send", "status": "failed", "ended_at_ms": NOW_MS}
    return Attempt(delivery_id=delivery_id, number=number, **(values | fields))


def fact(name: str, *, kind: str = "note", at_ms: int = NOW_MS, **value: Any) -> Fact:
    return Fact(kind, name, at_ms, value)


def changed(before: Delivery, *, at_ms: int = NOW_MS, **fields: Any) -> Delivery:
    """As a transition would leave it: other fields, the version that was read."""
    return replace(before, **({"updated_at_ms": at_ms} | fields))


def retry(before: Delivery, *, at_ms: int = NOW_MS, due_at_ms: int = NOW_MS) -> Change:
    """Released, to be tried again."""
    return Change(changed(before, at_ms=at_ms, state="pending", holder=None, due_at_ms=due_at_ms))


def waiting(before: Delivery, children: Iterable[New] = (), *, at_ms: int = NOW_MS) -> Change:
    """It waits for its children, old and new."""
    after = changed(before, at_ms=at_ms, state="waiting", holder=None, due_at_ms=None)
    return Change(after, children=tuple(children))


def ended(before: Delivery, state: str = "delivered", *, at_ms: int = NOW_MS) -> Change:
    """It ends, and lowers its parent's count."""
    after = changed(
        before, at_ms=at_ms, state=state, holder=None, due_at_ms=None, ended_at_ms=at_ms
    )
    return Change(after, child_delta=-1 if before.parent_id else 0)


def reopened(before: Delivery, *, at_ms: int = NOW_MS) -> Change:
    """It is open again, and its parent counts it again."""
    return replace(retry(before, at_ms=at_ms, due_at_ms=at_ms), child_delta=1)
