"""What a store has to write, decided once for all stores.

A `New` or a `Change` describes what happened; a `Write` which records to put and to remove.
Stores execute Writes with compare-and-set and contain no rules. The order inside a Write is
part of the contract:

1. Everything is encoded before anything is applied.
2. The condition is checked: the stored version, or a free id and free keys. Writes of one call are
   checked in order, and each sees the effects of the earlier ones.
3. Children are checked and put, each by its own condition; those whose id or key is taken are left
   out. At this point the id and the keys of the delivery itself are taken, even if it is about to
   be removed.
4. Payload and results are put before the record, and the record before the parent's counter.
   Shown records are put with it.
5. Facts are put last, those of the call after those of its items. Waiting workers are woken after
   the commit.
"""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from homing.domain.delivery import TERMINAL_STATES, Attempt, Change, Delivery, Fact, Key, New
from homing.domain.shown import Projection, ShownRecord

KEPT_PAYLOAD = "payload."
"""A replaced payload stays readable among the results as `payload.<its number>`."""


class Count(Struct, frozen=True, gc=False):
    """A child has ended or is open again: its parent's counter of open children changes."""

    parent_id: str
    delta: int
    at_ms: int


class Write(Struct, frozen=True, gc=False, kw_only=True):
    """One record with all that is stored together with it: all of it, or nothing.

    `over` is the version that must be stored, which becomes `over + 1`; None: the id must be
    free and the record is put with its own version. The store itself keeps the counter
    `open_children` of a record and never takes it from `delivery`.
    """

    delivery: Delivery
    over: int | None = None
    # Remove the record, its content and its attempts. Keys stay.
    removes: bool = False
    # Set for a waiting delivery: it is due at this time while no child is open, else never.
    due_at_zero_ms: int | None = None
    # Names to take. A stored one blocks unless it has expired by `free_by_ms`.
    keys: tuple[Key, ...] = ()
    free_by_ms: int = 0
    # Keys put again with another term, each only if it still belongs to this delivery.
    terms: tuple[Key, ...] = ()
    payload: bytes | None = None
    # First keep the stored payload as a result of this name.
    keep_payload_as: str | None = None
    # Drop all results but those whose name starts with this.
    drop_results_but: str | None = None
    results: dict[str, bytes] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    children: tuple[Write, ...] = ()
    # What it adds to its parent's counter when it is put as a child.
    opens: int = 0
    count: Count | None = None
    facts: tuple[Fact, ...] = ()
    # Records of a RecordLayout, in the same commit.
    shown: tuple[ShownRecord, ...] = ()
    # Something may be due now: wake the waiting workers.
    wakes: bool = False

    @property
    def is_plain(self) -> bool:
        """Puts a record and perhaps attempts and results: nothing that needs a read first."""
        return not (
            self.removes
            or self.children
            or self.payload is not None
            or self.drop_results_but is not None
        )


# Both are called for every delivery: a rule that does not touch most of them costs no call there.


def write_of_new(new: New, projection: Projection | None = None) -> Write:
    """Add it, unless a key or its id is taken."""
    delivery = new.delivery
    keys = new.keys if delivery.ended_at_ms is None else _ended_keys(new)
    return Write(
        delivery=delivery,
        due_at_zero_ms=delivery.updated_at_ms if delivery.state == "waiting" else None,
        keys=keys,
        free_by_ms=delivery.created_at_ms,
        payload=new.payload,
        results=new.results,
        children=_writes_of(new.children, projection) if new.children else (),
        opens=0 if delivery.state in TERMINAL_STATES else 1,
        facts=new.facts,
        shown=() if projection is None else projection.of_new(new, keys),
        wakes=delivery.state == "pending" or _wakes(delivery),
    )


def write_of_change(change: Change, projection: Projection | None = None) -> Write:
    """Save it over the version that was read."""
    delivery = change.delivery
    count = None
    if change.child_delta and delivery.parent_id is not None:
        count = Count(delivery.parent_id, change.child_delta, delivery.updated_at_ms)
    replaces = change.payload is not None
    terms = () if delivery.key_term_s is None else _terms(change)
    return Write(
        delivery=delivery,
        over=delivery.version,
        removes=change.forget,
        due_at_zero_ms=delivery.updated_at_ms if delivery.state == "waiting" else None,
        terms=terms,
        payload=change.payload,
        keep_payload_as=f"{KEPT_PAYLOAD}{delivery.payload_no - 1}" if replaces else None,
        # What a stage made is dropped; what was asked for is history and stays.
        drop_results_but=KEPT_PAYLOAD if change.drop_results else None,
        results=change.results,
        attempts=change.ended,
        children=_writes_of(change.children, projection) if change.children else (),
        count=count,
        facts=change.facts,
        shown=() if projection is None else projection.of_change(change, terms),
        wakes=count is not None or (delivery.state != "delivered" and _wakes(delivery)),
    )


def is_stored(write: Write, stored: Delivery | None) -> bool:
    """Whether exactly this save is what is stored: after a commit whose answer was lost."""
    if stored is None:
        return write.removes
    ours = replace(
        write.delivery,
        version=write.delivery.version + 1,
        open_children=stored.open_children,
        due_at_ms=write.delivery.due_at_ms if write.due_at_zero_ms is None else stored.due_at_ms,
    )
    return ours == stored


def _writes_of(children: tuple[New, ...], projection: Projection | None) -> tuple[Write, ...]:
    return tuple([write_of_new(child, projection) for child in children])


def _wakes(delivery: Delivery) -> bool:
    """Open and held by no process: pending, waiting, or in flight with its lease ended."""
    if delivery.state in TERMINAL_STATES:
        return False
    if delivery.state != "in_flight" or delivery.holder is None:
        return True
    return delivery.due_at_ms is not None and delivery.due_at_ms <= delivery.updated_at_ms


def _terms(change: Change) -> tuple[Key, ...]:
    """The term of a key begins when its delivery ends; a replay makes it unlimited again."""
    delivery = change.delivery
    if delivery.ended_at_ms is None and not change.reopens:
        return ()
    if delivery.key_term_s is None or not _owns_its_key(delivery):
        return ()
    key = delivery.key or ""
    expires_at_ms = _key_expires_at_ms(delivery)
    return (Key(delivery.source, key, delivery.id, delivery.fingerprint, expires_at_ms),)


def _ended_keys(new: New) -> tuple[Key, ...]:
    """The keys of a delivery that has ended before it is added: its term begins at once."""
    delivery = new.delivery
    if delivery.key_term_s is None or not _owns_its_key(delivery):
        return new.keys
    expires_at_ms = _key_expires_at_ms(delivery)
    own = delivery.source, delivery.key
    return tuple(
        [
            replace(key, expires_at_ms=expires_at_ms) if (key.source, key.key) == own else key
            for key in new.keys
        ]
    )


def _owns_its_key(delivery: Delivery) -> bool:
    """A child shows its parent's key and does not own it."""
    return delivery.key is not None and delivery.parent_id is None


def _key_expires_at_ms(delivery: Delivery) -> int | None:
    if delivery.ended_at_ms is None or delivery.key_term_s is None:
        return None
    return delivery.ended_at_ms + round(delivery.key_term_s * 1000)
