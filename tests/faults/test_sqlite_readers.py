"""A listing that takes long delays neither housekeeping nor what is asked about one delivery."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

from homing.ports import Facet, Query
from homing.stores.sql.sqlite import SqliteStore
from homing.testing import samples

BOUND_S = 30.0


async def test_a_long_listing_delays_nobody_else(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "outbox.db")
    await store.open()
    await store.add([samples.new("d1", notices_due=("alert",))])
    is_over = threading.Event()

    def takes_long(connection: sqlite3.Connection) -> None:
        is_over.wait(BOUND_S)

    listing = asyncio.create_task(store._open.slow.ask(takes_long))
    in_flight = (Facet(state="in_flight"),)
    async with asyncio.timeout(BOUND_S / 2):
        assert await store.get("d1") is not None
        assert len((await store.page(Query(notices_due=True))).items) == 1
        assert (await store.page(Query(holder="w1", facets=in_flight))).items == ()
        assert await store.count(Query(), by=("route", "state")) != {}
        assert await store.count(Query(facets=in_flight), by=("queue",)) == {}
    assert not listing.done()
    is_over.set()
    await listing
    await store.close()
