"""Claims read the front of the due index, of every queue and priority, and no more."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, json
from msgspec.structs import force_setattr

from homing.domain.delivery import FIRST_PRIORITY, LAST_PRIORITY, Content, Delivery
from homing.ports import Claim, Claimed, Renewal
from homing.stores.codec import decode_deliveries, encode
from homing.stores.sql.columns import overlay_columns
from homing.stores.sql.ledger import CARRIES_RESULTS
from homing.stores.sql.sqlite.rows import PARTS
from homing.stores.sql.sqlite.session import Session
from homing.stores.sql.statements import load

_SQL = load(__package__, "claim.sql", PARTS)
PRIORITIES = range(FIRST_PRIORITY, LAST_PRIORITY + 1)
LONG_PAYLOAD_BYTES = 65_536
# Queues times priorities are merged two by two, each merge on top of the other: no more than 32.
QUEUES_AT_ONCE = 32 // len(PRIORITIES)


class Due(Struct, frozen=True, array_like=True, order=True, gc=False):
    priority: int
    due_at_ms: int
    id: str
    seq: int
    payload_bytes: int


class Head(Struct, frozen=True, array_like=True, gc=False):
    """What a claim changes beside what it was asked for, and what else has to be read."""

    seq: int
    version: int
    unsettled_claims: int
    open_children: int
    is_stale: int
    carries: int


class Held(Struct):
    """What was claimed, as it was read; it is decoded where the claim was asked for."""

    due: list[Due] = []
    heads: list[Head] = []
    records: bytes = b"[]"
    payloads: bytes = b""
    long_payloads: dict[int, bytes] = {}
    results: dict[int, dict[str, bytes]] = {}
    fresh: dict[int, list[Any]] = {}


_decode_due = json.Decoder(list[Due]).decode
_decode_heads = json.Decoder(list[Head]).decode


def claim_all(session: Session, claims: Sequence[Claim]) -> list[Held]:
    return [_claim(session, claim) for claim in claims]


def _claim(session: Session, claim: Claim) -> Held:
    if claim.limit <= 0:
        return Held()
    due = _affordable(claim, _due(session, claim))
    if not due:
        return Held()
    taken = encode([one.seq for one in due]).decode()
    session.run(_SQL["take"], (claim.worker, claim.lease_until_ms, claim.now_ms, taken))
    [(heads, records, payloads)] = session.ask(_SQL["taken"], (taken, LONG_PAYLOAD_BYTES))
    held = Held(due, _decode_heads(heads), records, payloads)
    if max([one.payload_bytes for one in due]) > LONG_PAYLOAD_BYTES:
        long = session.ask(_SQL["long_payloads"], (taken, LONG_PAYLOAD_BYTES))
        held.long_payloads = dict(long)
    carries = is_stale = 0
    for head in held.heads:
        carries |= head.carries
        is_stale |= head.is_stale
    if carries & CARRIES_RESULTS:
        for seq, name, data in session.ask(_SQL["results"], (taken,)):
            held.results.setdefault(seq, {})[name] = data
    if is_stale:
        held.fresh = {seq: fresh for seq, *fresh in session.ask(_SQL["fresh"], (taken,))}
    return held


def _affordable(claim: Claim, due: list[Due]) -> list[Due]:
    """As many as fit into the limit of bytes, and always the first."""
    if claim.limit_bytes is None:
        return due
    left = claim.limit_bytes
    for nth, one in enumerate(due):
        left -= one.payload_bytes
        if left < 0:
            return due[: max(nth, 1)]
    return due


def _due(session: Session, claim: Claim) -> list[Due]:
    """By priority, and those due first."""
    queues = tuple(dict.fromkeys(claim.queues))
    expired = _expired(session, claim, queues)
    ready: list[Due] = []
    for start in range(0, len(queues), QUEUES_AT_ONCE):
        ready += _ready(session, claim, queues[start : start + QUEUES_AT_ONCE])
    if expired or len(queues) > QUEUES_AT_ONCE:
        return sorted(ready + expired)[: claim.limit]
    return ready


def _expired(session: Session, claim: Claim, queues: Sequence[str]) -> list[Due]:
    """Leases that have ended, except those of live holders."""
    alive = encode(sorted(claim.alive_holders)).decode()
    found = session.ask(_SQL["expired"], (encode(queues).decode(), claim.now_ms, alive))
    return [Due(*one) for one in found]


def _ready(session: Session, claim: Claim, queues: Sequence[str]) -> list[Due]:
    ranges = [
        value
        for queue in queues
        for priority in PRIORITIES
        for value in (queue, priority, claim.now_ms)
    ]
    [(picked,)] = session.ask(_pick(len(queues)), (*ranges, claim.limit))
    return _decode_due(picked)


@functools.cache
def _pick(queues: int) -> str:
    places = [_SQL["ready"]] * (queues * len(PRIORITIES))
    return _SQL["pick"].replace(":places:", "\nunion all\n".join(places))


def claimed_of(claim: Claim, held: Held) -> Iterator[tuple[Claimed, int]]:
    """What the worker gets, each with its place: the stored record with the claim applied."""
    start = 0
    deliveries = decode_deliveries(held.records)
    for one, head, delivery in zip(held.due, held.heads, deliveries, strict=True):
        if head.is_stale:
            overlay_columns(delivery, held.fresh[head.seq])
        else:
            _overlay_claim(delivery, claim, head)
        payload = held.long_payloads.get(head.seq)
        if payload is None:
            payload = held.payloads[start : start + one.payload_bytes]
            start += one.payload_bytes
        results = held.results.get(head.seq)
        yield Claimed(delivery, Content(payload, {} if results is None else results)), head.seq


def _overlay_claim(delivery: Delivery, claim: Claim, head: Head) -> None:
    force_setattr(delivery, "state", "in_flight")
    force_setattr(delivery, "holder", claim.worker)
    force_setattr(delivery, "due_at_ms", claim.lease_until_ms)
    force_setattr(delivery, "claimed_at_ms", claim.now_ms)
    force_setattr(delivery, "unsettled_claims", head.unsettled_claims)
    force_setattr(delivery, "version", head.version)
    force_setattr(delivery, "open_children", head.open_children)


def renew_all(session: Session, renewals: Sequence[Renewal]) -> list[list[bool]]:
    return [
        [
            session.run(
                _SQL["renew"], (renewal.lease_until_ms, delivery_id, version, renewal.holder)
            )
            == 1
            for delivery_id, version in renewal.held
        ]
        for renewal in renewals
    ]
