"""A delivery as a row: the columns that databases look at, and the record that says it all."""

from __future__ import annotations

import hashlib
from typing import Any, TypeAlias

from msgspec.structs import force_setattr

from homing.domain.delivery import Attempt, Delivery, Fact
from homing.stores.codec import decode_delivery, encode, encode_text

Row: TypeAlias = tuple[Any, ...]

CARRIES_PAYLOAD = 1
CARRIES_RESULTS = 2

# What a claim or a child changes without rewriting the record: the columns are the truth.
FRESH = (
    "state",
    "holder",
    "due_at_ms",
    "claimed_at_ms",
    "claims",
    "version",
    "open_children",
)

_DUE = 19
_OPEN_CHILDREN = 24
ENVELOPE = 26


def delivery_row(delivery: Delivery, carries: int) -> Row:
    """In the order of the columns of `insert_deliveries` and `put_deliveries`."""
    failure = delivery.failure
    return (
        delivery.id,
        delivery.route,
        delivery.lane,
        delivery.priority,
        delivery.state,
        delivery.stage,
        delivery.failed_because,
        None if failure is None else failure.error_class,
        delivery.source,
        delivery.key,
        delivery.topic,
        delivery.parent_id,
        delivery.clone_of,
        delivery.holder,
        1 if delivery.owed else 0,
        1 if delivery.attempts > 0 else 0,
        1 if delivery.required else 0,
        delivery.created_at_ms,
        delivery.updated_at_ms,
        delivery.due_at_ms,
        delivery.ended_at_ms,
        delivery.version,
        delivery.claims,
        delivery.claimed_at_ms,
        0,
        carries,
        envelope_digest(delivery),
        encode_text(delivery),
    )


def envelope_digest(delivery: Delivery) -> int | None:
    """Tells two envelopes apart, so that addresses are indexed anew only when they changed."""
    if not delivery.recipients:
        return None
    addresses = "\0".join([recipient.address for recipient in delivery.recipients])
    digest = hashlib.blake2b(addresses.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def with_children(row: Row, open_children: int, due_at_ms: int | None) -> Row:
    """The same row with its count of open children, and the due time that follows from it."""
    changed = list(row)
    changed[_DUE] = due_at_ms
    changed[_OPEN_CHILDREN] = open_children
    return tuple(changed)


def delivery_of(record: str, fresh: tuple[Any, ...]) -> Delivery:
    """The record with what the columns know better, in the order of `FRESH`."""
    delivery = decode_delivery(record)
    for name, value in zip(FRESH, fresh, strict=True):
        force_setattr(delivery, name, value)  # nobody else has seen this value yet
    return delivery


def attempt_row(delivery: Delivery, attempt: Attempt) -> Row:
    """In the order of the columns of `put_attempts`."""
    return (
        delivery.id,
        attempt.number,
        delivery.route,
        attempt.ended_at_ms,
        encode_text(attempt),
    )


def fact_row(fact: Fact) -> Row:
    """In the order of the columns of `put_facts`."""
    return (fact.kind, fact.key, fact.at_ms, encode(fact.value).decode())
