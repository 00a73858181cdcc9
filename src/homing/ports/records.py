"""A request for work, and a store's answers to an add and to a claim."""

from __future__ import annotations

from msgspec import Struct

from homing.domain.delivery import Content, Delivery, Key, Receipt


class Added(Struct, frozen=True, gc=False):
    """Stored durably; `receipt` as in `Claimed`, for deliveries that were stored as claimed."""

    delivery_id: str
    receipt: Receipt | None = None


class Existing(Struct, frozen=True, gc=False):
    """Not stored: this key, or (with no key) this id, is taken."""

    delivery_id: str
    key: Key | None = None


class Claim(Struct, frozen=True, gc=False, kw_only=True):
    """A worker asks for work: what is due in its queues, by priority, then due time.

    Leases of `alive_holders` are left alone even when the wall clock says that they have ended.
    `limit_bytes` bounds the sum of the payloads; the first one is always returned. Unless it is
    `durable`, a power cut may undo the claim.
    """

    worker: str
    now_ms: int
    lease_until_ms: int
    limit: int
    queues: tuple[str, ...]
    alive_holders: frozenset[str] = frozenset()
    limit_bytes: int | None = None
    durable: bool = True


class Claimed(Struct, frozen=True, gc=False):
    """A delivery that is now held by the worker that asked, with its content.

    `receipt` is evidence, found in the same commit, that it was accepted before.
    """

    delivery: Delivery
    content: Content
    receipt: Receipt | None = None
