"""Claims read the front of the due index, lane by lane and priority by priority, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from msgspec import Struct

from homing.domain.delivery import FIRST_PRIORITY, LAST_PRIORITY, Content
from homing.ports import Claim, Claimed
from homing.stores.codec import encode
from homing.stores.sql.sqlite.rows import CARRIES_RESULTS, Fresh, Row, delivery_of
from homing.stores.sql.sqlite.session import Session
from homing.stores.sql.statements import load

_SQL = load(__package__, "claim.sql")
PRIORITIES = range(FIRST_PRIORITY, LAST_PRIORITY + 1)


class Held(Struct):
    """Raw rows of what was claimed; they are decoded where the claim was asked for."""

    rows: list[Row]
    results: dict[int, dict[str, bytes]]


class RenewRequest(Struct):
    holder: str
    held: Sequence[tuple[str, int]]
    lease_until_ms: int


def claim_all(session: Session, claims: Sequence[Claim]) -> list[Held]:
    return [_claim(session, claim) for claim in claims]


def _claim(session: Session, claim: Claim) -> Held:
    rows: list[Row] = []
    for priority in PRIORITIES:
        if len(rows) < claim.limit:
            rows += _first_due(session, claim, priority, claim.limit - len(rows))
    if not rows:
        return Held(rows, {})
    taken = encode([row[4] for row in rows]).decode()
    session.run(_SQL["take"], (claim.worker, claim.lease_until_ms, claim.now_ms, taken))
    results: dict[int, dict[str, bytes]] = {}
    if any(row[8] & CARRIES_RESULTS for row in rows):
        for seq, name, data in session.ask(_SQL["results"], (taken,)):
            results.setdefault(seq, {})[name] = data
    return Held(rows, results)


def _first_due(session: Session, claim: Claim, priority: int, limit: int) -> list[Row]:
    """Those due first of all lanes; what a living holder has is passed over."""
    lanes = dict.fromkeys(claim.lanes)
    rows: list[Row] = []
    with session.stream(_SQL["due"], [(lane, priority, claim.now_ms) for lane in lanes]) as due:
        while found := list(islice(due, limit - len(rows))):
            rows += [row for row in found if row[3] not in claim.spare or row[2] != "in_flight"]
    return rows


def claimed_of(claim: Claim, held: Held) -> list[Claimed]:
    """What the worker gets: the record as it was, with the claim upon it."""
    claimed: list[Claimed] = []
    for _, _, _, _, seq, version, claims, open_children, _, record, payload in held.rows:
        fresh: Fresh = (
            "in_flight",
            claim.worker,
            claim.lease_until_ms,
            claim.now_ms,
            claims + 1,
            version + 1,
            open_children,
        )
        content = Content(payload or b"", held.results.get(seq, {}))
        claimed.append(Claimed(delivery_of(record, fresh), content))
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
