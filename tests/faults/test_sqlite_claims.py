"""Claims of SQLite and the lock of the file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from homing.stores.sql.sqlite import SqliteStore
from homing.testing import samples


async def test_a_claim_of_nothing_waits_for_no_lock(tmp_path: Path) -> None:
    """Many idle workers that are woken for one delivery must not queue for the writer's lock."""
    store = SqliteStore(tmp_path / "outbox.db", busy_timeout_s=0.0)
    await store.open()
    try:
        with closing(sqlite3.connect(tmp_path / "outbox.db", isolation_level=None)) as other:
            other.execute("begin immediate")
            assert await store.claim(samples.claim()) == []
            other.execute("rollback")
        await store.add([samples.new("d1")])
        assert len(await store.claim(samples.claim())) == 1
    finally:
        await store.close()
