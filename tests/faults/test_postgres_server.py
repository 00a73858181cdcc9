"""The PostgreSQL server is killed, stopped at once, and replaced by its standby."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace

from homing.domain.errors import StoreError, StoreUnsafe
from homing.ports import Added
from homing.stores.sql import migrate, schema
from homing.stores.sql.migrate import Migration
from homing.stores.sql.postgres import PostgresStore
from homing.testing import samples
from tests import servers
from tests.faults.disks import MountRefused, cut_power, make_image, mounted
from tests.faults.processes import BOUND_S, until

IMAGE_BYTES = 256 * 1024 * 1024
# Where the log begins that may not be on the disk. One byte later: at the very end of a file, some
# versions name the one before.
SYNCED = "select * from pg_walfile_name_offset(pg_current_wal_flush_lsn() + 1)"


@pytest.fixture
def home() -> Iterator[Path]:
    """Not pytest's own folder: only root may enter that, and the server runs as another user."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


class Load:
    """Adds one after the other, claims and ends; whatever the store refuses is asked for again."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._numbers = iter(range(10**6))
        self.acknowledged: list[str] = []
        self.delivered: list[str] = []
        self.resumed = asyncio.Event()
        self.is_busy = asyncio.Event()
        self.is_over = False

    async def run(self) -> None:
        await asyncio.gather(*(self._add() for _ in range(4)), self._work())

    async def _add(self) -> None:
        while not self.is_over:
            name = f"d{next(self._numbers):06}"
            # Not for ever: after a test that failed, the server does not come back.
            while not self.is_over:
                try:
                    [answer] = await self._store.add([samples.keyed(name, name)])
                except StoreError:
                    await asyncio.sleep(0.02)
                    continue
                self.acknowledged.append(answer.delivery_id)
                self.resumed.set()
                break

    async def _work(self) -> None:
        now_ms = samples.NOW_MS
        while not self.is_over:
            try:
                now_ms += samples.LEASE_MS  # what was lost with a claim's answer is due again
                claimed = await self._store.claim(samples.claim(at_ms=now_ms, limit=50))
                ended = [samples.ended(one.delivery) for one in claimed]
                saved = await self._store.save(ended)
            except StoreError:
                await asyncio.sleep(0.02)
                continue
            self.delivered += [
                one.delivery.id for one, kept in zip(claimed, saved, strict=True) if kept
            ]
            if len(self.delivered) >= 50:
                self.is_busy.set()
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def under_load(url: str) -> AsyncIterator[tuple[PostgresStore, Load]]:
    store = PostgresStore(url)
    await store.open()
    load = Load(store)
    running = asyncio.ensure_future(load.run())
    try:
        async with asyncio.timeout(BOUND_S):
            await load.is_busy.wait()
        yield store, load
    finally:
        load.is_over = True
        await asyncio.wait([running])
        await store.close()
    running.result()


async def nothing_is_lost(store: PostgresStore, load: Load) -> None:
    acknowledged, delivered = [*load.acknowledged], [*load.delivered]
    found = await store.get_many(acknowledged)
    assert [one.id for one in found if one] == acknowledged
    ended = await store.get_many(delivered)
    assert {one.state for one in ended if one} == {"delivered"}
    assert len(delivered) == len({*delivered})


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGQUIT])
async def test_a_server_that_dies_in_mid_flight(how: signal.Signals, home: Path) -> None:
    """SIGQUIT is what `pg_ctl stop -m immediate` sends: no shutdown, recovery at the next start."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(servers.postgres(folder=home / "server"))
        async with under_load(first.url) as (store, load):
            os.kill(first.pid, how)
            await asyncio.to_thread(stack.close)
            await asyncio.to_thread(until_free, home / "server")
            # Not in this thread: while the server starts, the load goes on asking.
            again = servers.postgres(folder=home / "server", port=first.port)
            await asyncio.to_thread(stack.enter_context, again)
            await resumes(load)
            await nothing_is_lost(store, load)
            assert await store.add([samples.new("last")]) == [Added("last")]


async def resumes(load: Load) -> None:
    """The server has just answered: from now on."""
    load.resumed.clear()
    async with asyncio.timeout(BOUND_S):
        await load.resumed.wait()


def until_free(home: Path) -> None:
    """The children of a killed postmaster end by themselves, a little later."""
    look = ["pgrep", "-f", str(home / "data")]
    until(
        lambda: subprocess.run(look, stdout=subprocess.DEVNULL, check=False).returncode != 0,
        lambda: "the old server's processes do not end",
    )
    (home / "data" / "postmaster.pid").unlink(missing_ok=True)


async def test_failover_to_a_synchronous_standby(home: Path) -> None:
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(servers.postgres(folder=home / "one"))
        make_standby(primary, home / "two")
        standby = stack.enter_context(servers.postgres(folder=home / "two"))
        await_synchronous(primary)
        ports = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        async with under_load(f"postgresql://postgres@{ports}/postgres") as (store, load):
            os.kill(primary.pid, signal.SIGQUIT)
            with psycopg.connect(standby.url, autocommit=True) as connection:
                connection.execute("select pg_promote(true, 30)")
            await resumes(load)
            await nothing_is_lost(store, load)


def make_standby(primary: servers.Server, home: Path) -> None:
    with psycopg.connect(primary.url, autocommit=True) as connection:
        [(binaries,)] = connection.execute(
            "select setting from pg_config where name = 'BINDIR'"
        ).fetchall()
    source = f"host=127.0.0.1 port={primary.port} user=postgres application_name=standby"
    servers.run_as_servant(
        [f"{binaries}/pg_basebackup", "-D", str(home / "data"), "-d", source, "-R", "-X", "stream"],
        home,
    )


def await_synchronous(primary: servers.Server) -> None:
    with psycopg.connect(primary.url, autocommit=True) as connection:
        connection.execute("alter system set synchronous_standby_names = 'standby'")
        connection.execute("select pg_reload_conf()")
        question = "select sync_state from pg_stat_replication"
        until(
            lambda: connection.execute(question).fetchall() == [("sync",)],
            lambda: "the standby does not follow",
        )


async def test_a_power_cut_loses_nothing_acknowledged_i1(home: Path) -> None:
    """The server lies on an image; a copy of it holds what a disk would hold at that moment.

    Where nobody may mount, all that the server has not synced of its log is wiped out instead.
    """
    image, copy = home / "live.img", home / "cut.img"
    try:
        make_image(image, IMAGE_BYTES)
        with (
            mounted(home / "live", "-o", "loop", str(image)) as place,
            servers.postgres("min_wal_size=32MB", folder=place) as server,
        ):
            # The cluster was made without syncing; what is proved is what follows.
            await asyncio.to_thread(os.sync)
            async with under_load(server.url) as (_, load):
                pass
            acknowledged, delivered = load.acknowledged, load.delivered
            # The server is idle: what it has not synced is only in memory.
            cut_power(image, copy)
    except MountRefused:
        acknowledged, delivered = await cut_at_the_synced_log(home / "server")
        await starts_with(home / "server", acknowledged, delivered)
        return
    with mounted(home / "cut", "-o", "loop", str(copy)) as place:
        (place / "data" / "postmaster.pid").unlink()
        await starts_with(place, acknowledged, delivered)


async def starts_with(home: Path, acknowledged: list[str], delivered: list[str]) -> None:
    with servers.postgres(folder=home) as server:
        store = PostgresStore(server.url)
        await store.open()
        found = await store.get_many(acknowledged)
        assert [one.id for one in found if one] == acknowledged
        ended = await store.get_many(delivered)
        assert {one.state for one in ended if one} == {"delivered"}
        await store.close()


async def cut_at_the_synced_log(home: Path) -> tuple[list[str], list[str]]:
    """Only a commit that waits for it syncs the log, and nobody writes pages."""
    alone = ("wal_writer_delay=10s", "bgwriter_lru_maxpages=0", "checkpoint_timeout=1h")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(servers.postgres(*alone, folder=home))
        connection = stack.enter_context(contextlib.closing(psycopg.connect(server.url)))
        async with under_load(server.url) as (_, load):
            acknowledged, delivered = [*load.acknowledged], [*load.delivered]
            [(name, offset)] = connection.execute(SYNCED).fetchall()
            os.kill(server.pid, signal.SIGKILL)
    until_free(home)
    for segment in (home / "data" / "pg_wal").glob("[0-9A-F]" * len(name)):
        if segment.name >= name:
            begin = offset if segment.name == name else 0
            with segment.open("r+b") as log:
                log.seek(begin)
                log.write(bytes(segment.stat().st_size - begin))
    return acknowledged, delivered


@pytest.fixture(scope="module")
def careless() -> Iterator[servers.Server]:
    with servers.postgres("fsync=off", "synchronous_commit=off") as server:
        yield server


async def test_a_server_that_may_lose_commits_is_refused(careless: servers.Server) -> None:
    store = PostgresStore(careless.url)

    with pytest.raises(StoreUnsafe, match=r"fsync=off, synchronous_commit=off.*durability=weak"):
        await store.open()

    [finding] = [one for one in await store.findings() if one.check == "durability"]
    assert (finding.verdict, "fsync=off" in finding.detail) == ("bad", True)


async def test_weak_durability_can_be_allowed_and_is_still_reported(
    careless: servers.Server,
) -> None:
    store = PostgresStore(f"{careless.url}?durability=weak")
    await store.open()
    try:
        await store.add([samples.new("d1")])
        [finding] = [one for one in await store.findings() if one.check == "durability"]
        assert finding.verdict == "warning"
    finally:
        await store.close()


async def test_several_processes_may_migrate_at_once(careless: servers.Server) -> None:
    with psycopg.connect(careless.url, autocommit=True) as connection:
        connection.execute("create database fresh")
    url = careless.url.rpartition("/")[0] + "/fresh" + "?durability=weak"
    stores = [PostgresStore(url) for _ in range(6)]
    assert await stores[0].pending_migrations() == [
        "0001_deliveries",
        "0002_counts",
        "0003_failures",
    ]

    await asyncio.gather(*(store.open() for store in stores))

    assert await stores[0].pending_migrations() == []
    for store in stores:
        await store.close()


async def test_a_newer_schema_is_refused(careless: servers.Server) -> None:
    with psycopg.connect(careless.url, autocommit=True) as connection:
        connection.execute("create database newer")
    plain = careless.url.rpartition("/")[0] + "/newer"
    store = PostgresStore(f"{plain}?durability=weak")
    await store.open()
    await store.close()
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute("insert into homing_migrations values (99, 'later', 'x')")

    with pytest.raises(StoreUnsafe, match="opened by a newer version"):
        await store.open()


async def test_workers_of_the_version_before_are_named_before_a_migration_that_stops_them(
    careless: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(careless.url, autocommit=True) as connection:
        connection.execute("create database older")
    store = PostgresStore(careless.url.rpartition("/")[0] + "/older?durability=weak")
    await store.open()
    beat = samples.fact("worker-7", kind="worker", at_ms=round(time.time() * 1000))
    await store.save([], [beat])
    await store.close()
    shipped = migrate.shipped("homing.stores.sql.postgres")
    number, script = shipped[-1].number + 1, "alter table homing_open add extra text;"
    later = Migration(number, "later", migrate.MUST_STOP + script)
    monkeypatch.setattr(schema, "shipped", lambda _: (*shipped, later))

    with pytest.raises(StoreUnsafe, match=r"_later .* stop them first.*worker-7"):
        await store.open()

    harmless = replace(later, script=later.script.replace("must stop", "go on"))
    monkeypatch.setattr(schema, "shipped", lambda _: (*shipped, harmless))
    await store.open()
    assert await store.pending_migrations() == []
    await store.close()
