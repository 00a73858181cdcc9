"""Purges, and the removal of single records, inside a write transaction."""

from __future__ import annotations

from collections.abc import Sequence

from homing.domain.delivery import Delivery
from homing.ports import PurgeRule
from homing.stores.sql import purging
from homing.stores.sql.asking import listed, run
from homing.stores.sql.sqlite.dialect import DIALECT
from homing.stores.sql.sqlite.session import Session

_REMOVE = DIALECT.sql["remove"].split(";\n")


def purge_all(session: Session, rules: Sequence[PurgeRule]) -> list[int]:
    return [
        run(purging.purge(DIALECT, rule), lambda ask: session.ask(ask.sql, ask.values))
        for rule in rules
    ]


def remove(session: Session, seq: int | None, delivery: Delivery) -> None:
    """Remove a record and its content; its recipients are the caller's."""
    session.counts.add(delivery, -1)
    for statement in _REMOVE:
        session.ask(statement, {"rows": listed([seq])})
