"""Purges, inside a transaction."""

from __future__ import annotations

from homing.ports import PurgeRule
from homing.stores.sql import purging
from homing.stores.sql.postgres.connection import Session
from homing.stores.sql.postgres.dialect import DIALECT, answer
from homing.stores.sql.postgres.statement import Statement

ADD_COUNTS_UP = Statement(DIALECT.sql["add_counts_up"])


async def purge(session: Session, rule: PurgeRule) -> int:
    await session.run(ADD_COUNTS_UP)
    return await answer(session, purging.purge(DIALECT, rule))
