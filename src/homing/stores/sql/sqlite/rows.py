"""A delivery as a row: the columns that databases look at, and the record that says it all."""

from __future__ import annotations

import hashlib
from typing import Any, TypeAlias

from msgspec.structs import force_setattr

from homing.domain.delivery import Attempt, Delivery, Fact, Recipient, State
from homing.stores.codec import decode_delivery, encode, encode_text

Row: TypeAlias = tuple[Any, ...]

# Python binds None by a long search for an adapter; the statements turn these into nulls.
NO_TEXT = 0
NO_NUMBER = ""

CARRIES_PAYLOAD = 1
CARRIES_RESULTS = 2

# What a claim, a child or a mark changes without rewriting the record; there the columns are the
# truth: state, holder, due_at_ms, claimed_at_ms, claims, version, open_children, marked_at_ms.
Fresh: TypeAlias = tuple[State, str | None, int | None, int | None, int, int, int, int | None]
FRESH_COLUMNS = 8

_DUE = 20
_OPEN_CHILDREN = 25
ENVELOPE = 27


def number(value: int | None) -> int | str:
    return NO_NUMBER if value is None else value


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
        delivery.phase,
        NO_TEXT if delivery.failed_because is None else delivery.failed_because,
        NO_TEXT if failure is None else failure.error_class,
        delivery.source,
        NO_TEXT if (name := delivery.key) is None else name,
        NO_TEXT if (name := delivery.topic) is None else name,
        NO_TEXT if (name := delivery.parent_id) is None else name,
        NO_TEXT if (name := delivery.clone_of) is None else name,
        NO_TEXT if (name := delivery.holder) is None else name,
        1 if delivery.notices_due else 0,
        1 if delivery.attempts_spent > 0 else 0,
        1 if delivery.required else 0,
        delivery.created_at_ms,
        delivery.updated_at_ms,
        NO_NUMBER if (time_ms := delivery.due_at_ms) is None else time_ms,
        NO_NUMBER if (time_ms := delivery.ended_at_ms) is None else time_ms,
        delivery.version,
        delivery.unsettled_claims,
        NO_NUMBER if (time_ms := delivery.claimed_at_ms) is None else time_ms,
        0,
        carries,
        envelope_digest(delivery.recipients) if delivery.recipients else NO_NUMBER,
        encode_text(delivery),
    )


def envelope_digest(recipients: tuple[Recipient, ...]) -> int:
    """Tells two envelopes apart, so that addresses are indexed anew only when they changed."""
    addresses = "\0".join([recipient.address for recipient in recipients])
    digest = hashlib.blake2b(addresses.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def with_children(row: Row, open_children: int, due_at_ms: int | None) -> Row:
    """The same row with its count of open children, and the due time that follows from it."""
    changed = list(row)
    changed[_DUE] = number(due_at_ms)
    changed[_OPEN_CHILDREN] = open_children
    return tuple(changed)


def delivery_of(record: str, fresh: Fresh) -> Delivery:
    """The record with what the columns know better."""
    delivery = decode_delivery(record)
    overlay_columns(delivery, fresh)
    return delivery


def overlay_columns(delivery: Delivery, fresh: Fresh) -> None:
    """For a delivery just read, which nobody else has seen yet."""
    state, holder, due_at_ms, claimed_at_ms, claims, version, open_children, marked_at_ms = fresh
    force_setattr(delivery, "state", state)
    force_setattr(delivery, "holder", holder)
    force_setattr(delivery, "due_at_ms", due_at_ms)
    force_setattr(delivery, "claimed_at_ms", claimed_at_ms)
    force_setattr(delivery, "unsettled_claims", claims)
    force_setattr(delivery, "version", version)
    force_setattr(delivery, "open_children", open_children)
    if marked_at_ms is not None:
        force_setattr(delivery, "committing", True)  # noqa: FBT003 - a value, not a switch
        force_setattr(delivery, "committed_at_ms", delivery.committed_at_ms or marked_at_ms)
        force_setattr(delivery, "updated_at_ms", marked_at_ms)


def attempt_row(delivery: Delivery, attempt: Attempt) -> Row:
    """In the order of the columns of `put_attempts`."""
    return (
        delivery.id,
        attempt.number,
        delivery.route,
        number(attempt.ended_at_ms),
        encode_text(attempt),
    )


def fact_row(fact: Fact) -> Row:
    """In the order of the columns of `put_facts`."""
    return (fact.kind, fact.key, fact.at_ms, encode(fact.value).decode())
