"""Claims read the front of the due index, lane by lane and priority by priority, and no more."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from msgspec import Struct, json

from homing.domain.delivery import FIRST_PRIORITY, LAST_PRIORITY, Content
from homing.ports import Claim, Claimed
from homing.stores.codec import decode_deliveries, encode
from homing.stores.sql.sqlite.rows import CARRIES_RESULTS, overlay_columns
from homing.stores.sql.sqlite.session import Session
from homing.stores.sql.statements import load

_SQL = load(__package__, "claim.sql")
PRIORITIES = range(FIRST_PRIORITY, LAST_PRIORITY + 1)
LONG_PAYLOAD_BYTES = 65_536
# Lanes are merged two by two, each merge on top of the other: no deeper than this.
MOST_LANES_AT_ONCE = 32


class Due(Struct, frozen=True, array_like=True, order=True, gc=False):
    due_at_ms: int
    id: str
    seq: int


class Head(Struct, frozen=True, array_like=True, gc=False):
    """What a row's columns know better than its record; and how long its payload is."""

    seq: int
    version: int
    claims: int
    open_children: int
    marked_at_ms: int | None
    carries: int
    payload_bytes: int


class Held(Struct):
    """What was claimed, as it was read; it is decoded where the claim was asked for."""

    heads: list[Head] = []
    records: bytes = b"[]"
    payloads: bytes = b""
    long_payloads: dict[int, bytes] = {}
    results: dict[int, dict[str, bytes]] = {}


class RenewRequest(Struct):
    holder: str
    held: Sequence[tuple[str, int]]
    lease_until_ms: int


_decode_due = json.Decoder(list[Due]).decode
_decode_heads = json.Decoder(list[Head]).decode


def claim_all(session: Session, claims: Sequence[Claim]) -> list[Held]:
    return [_claim(session, claim) for claim in claims]


def _claim(session: Session, claim: Claim) -> Held:
    due: list[Due] = []
    for priority in PRIORITIES:
        if len(due) < claim.limit:
            due += _first_due(session, claim, priority, claim.limit - len(due))
    if not due:
        return Held()
    taken = encode([one.seq for one in due]).decode()
    session.run(_SQL["take"], (claim.worker, claim.lease_until_ms, claim.now_ms, taken))
    [(heads, records, payloads)] = session.ask(_SQL["taken"], (taken, LONG_PAYLOAD_BYTES))
    held = Held(_decode_heads(heads), records, payloads)
    if any(head.payload_bytes > LONG_PAYLOAD_BYTES for head in held.heads):
        long = session.ask(_SQL["long_payloads"], (taken, LONG_PAYLOAD_BYTES))
        held.long_payloads = dict(long)
    if any(head.carries & CARRIES_RESULTS for head in held.heads):
        for seq, name, data in session.ask(_SQL["results"], (taken,)):
            held.results.setdefault(seq, {})[name] = data
    return held


def _first_due(session: Session, claim: Claim, priority: int, limit: int) -> list[Due]:
    """Those due first of all lanes; what a living holder has is passed over."""
    spared = encode(sorted(claim.spare)).decode()
    lanes = list(dict.fromkeys(claim.lanes))
    found: list[Due] = []
    for start in range(0, len(lanes), MOST_LANES_AT_ONCE):
        some = lanes[start : start + MOST_LANES_AT_ONCE]
        ranges = [value for lane in some for value in (lane, priority, claim.now_ms, spared)]
        [(picked,)] = session.ask(_pick(len(some)), (*ranges, limit))
        found += _decode_due(picked)
    return found if len(lanes) <= MOST_LANES_AT_ONCE else sorted(found)[:limit]


@functools.cache
def _pick(lanes: int) -> str:
    return _SQL["pick"].replace(":lanes:", "\nunion all\n".join([_SQL["due"]] * lanes))


def claimed_of(claim: Claim, held: Held) -> list[Claimed]:
    """What the worker gets: the record as it was, with the claim upon it."""
    claimed: list[Claimed] = []
    start = 0
    for head, delivery in zip(held.heads, decode_deliveries(held.records), strict=True):
        overlay_columns(
            delivery,
            (
                "in_flight",
                claim.worker,
                claim.lease_until_ms,
                claim.now_ms,
                head.claims,
                head.version,
                head.open_children,
                head.marked_at_ms,
            ),
        )
        payload = held.long_payloads.get(head.seq)
        if payload is None:
            payload = held.payloads[start : start + head.payload_bytes]
            start += head.payload_bytes
        results = held.results.get(head.seq)
        claimed.append(Claimed(delivery, Content(payload, {} if results is None else results)))
    return claimed


def renew_all(session: Session, requests: Sequence[RenewRequest]) -> list[list[bool]]:
    return [
        [
            session.run(
                _SQL["renew"], (request.lease_until_ms, delivery_id, version, request.holder)
            )
            == 1
            for delivery_id, version in request.held
        ]
        for request in requests
    ]
