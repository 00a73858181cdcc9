"""A claim is one statement: it finds, locks, takes and returns what is due."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from msgspec.structs import force_setattr

from homing.domain.delivery import LAST_PRIORITY, Content, Delivery
from homing.ports import Claim, Claimed, Renewal
from homing.stores.codec import decode_deliveries
from homing.stores.sql.columns import FRESH, Row, overlay_columns
from homing.stores.sql.ledger import CARRIES_RESULTS
from homing.stores.sql.postgres.arrays import Array, Packed, pack
from homing.stores.sql.postgres.low_water import FROM_THE_START, PRIORITIES, LowWater
from homing.stores.sql.postgres.statement import Statement, bind
from homing.stores.sql.statements import load

_SQL = load(
    __package__,
    "claim.sql",
    {"priorities": str(LAST_PRIORITY), "fresh_as": ", ".join(f"d.{name}" for name in FRESH)},
)
# A row: id, is_stale, carries, priority, when it was due, has_facts, the fresh columns, record,
# payload.
_WAS_DUE, HAS_FACTS, _FRESH_START = 4, 5, 6
in_order: Callable[[Row], Any] = itemgetter(3, _WAS_DUE, 0)
_FRESH_END = _FRESH_START + len(FRESH)
# What a claim changes, of the fields whose columns it returns.
_CLAIMED = tuple(
    (name, FRESH.index(name))
    for name in (
        "state",
        "version",
        "unsettled_claims",
        "holder",
        "due_at_ms",
        "claimed_at_ms",
        "open_children",
    )
)


def claim_statement(
    claim: Claim, low_water: LowWater | None = None, fact_kind: str | None = None
) -> Statement:
    """With `low_water` it begins at the marks, else at the start.

    With `fact_kind` it looks for facts of this kind, too.
    """
    queues, from_ms = _from_the_start(tuple(claim.queues))
    leases_from_ms = FROM_THE_START
    if low_water is not None:
        of = tuple(dict.fromkeys(claim.queues))
        starts = [start for each in PRIORITIES for start in low_water.starts(of, each)]
        from_ms, leases_from_ms = pack(Array("bigint", starts)), low_water.leases_from_ms
    return bind(
        _SQL["claim"],
        {
            "from_ms": from_ms,
            "leases_from_ms": leases_from_ms,
            "fact_kind": fact_kind,
            "worker": claim.worker,
            "now_ms": claim.now_ms,
            "lease_until_ms": claim.lease_until_ms,
            "limit": claim.limit,
            "limit_bytes": claim.limit_bytes,
            "queues": queues,
            "alive_holders": Array("text", sorted(claim.alive_holders)),
        },
    )


@lru_cache(maxsize=64)
def _from_the_start(queues: tuple[str, ...]) -> tuple[Packed, Packed]:
    """Each queue once, and where it starts: the same in every claim of a worker."""
    names = tuple(dict.fromkeys(queues))
    starts = [FROM_THE_START] * (len(names) * len(PRIORITIES))
    return pack(Array("text", names)), pack(Array("bigint", starts))


def taken_of(rows: Sequence[Row], claimed: Sequence[Claimed]) -> Iterator[tuple[str, int, int]]:
    """Queue, priority and due time of what was claimed."""
    for row, one in zip(rows, claimed, strict=True):
        yield one.delivery.queue, one.delivery.priority, row[_WAS_DUE]


def results_statement(rows: Sequence[Row]) -> Statement | None:
    """Reads the results of those claimed that have any."""
    ids = [row[0] for row in rows if row[2] & CARRIES_RESULTS]
    return bind(_SQL["results"], {"ids": Array("text", ids)}) if ids else None


def claimed_of(rows: Sequence[Row], results: Sequence[Row]) -> Iterator[Claimed]:
    """What the worker gets: the stored record with the claim applied."""
    kept: dict[str, dict[str, bytes]] = {}
    for delivery_id, name, data in results:
        kept.setdefault(delivery_id, {})[name] = data
    deliveries = decode_deliveries(f"[{','.join([row[-2] for row in rows])}]")
    for row, delivery in zip(rows, deliveries, strict=True):
        fresh = row[_FRESH_START:_FRESH_END]
        if row[1]:
            overlay_columns(delivery, fresh)
        else:
            _overlay_claim(delivery, fresh)
        yield Claimed(delivery, Content(row[-1] or b"", kept.get(row[0], {})))


def _overlay_claim(delivery: Delivery, fresh: Row) -> None:
    for name, place in _CLAIMED:
        force_setattr(delivery, name, fresh[place])


def renew_statement(renewal: Renewal) -> Statement:
    return bind(
        _SQL["renew"],
        {
            "holder": renewal.holder,
            "lease_until_ms": renewal.lease_until_ms,
            "ids": Array("text", [delivery_id for delivery_id, _ in renewal.held]),
            "versions": Array("bigint", [version for _, version in renewal.held]),
        },
    )
