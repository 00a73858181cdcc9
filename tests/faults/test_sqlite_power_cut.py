"""A power cut loses nothing that was acknowledged (I1).

Where mounting is allowed the power is really cut: the store lies on an image, and a copy of the
image holds what a disk would hold. Where it is not, a trace shows that the log was synced before
each answer. The trace is looked at in any case.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from homing.domain import transitions
from homing.domain.delivery import Delivery
from homing.stores.sql.sqlite import SqliteStore
from homing.testing import samples
from tests.faults.adder import add_many
from tests.faults.adding import acknowledged, adder, missing, run
from tests.faults.disks import MountRefused, cut_power, make_image, mounted

CUTS = 8
IMAGE_BYTES = 24 * 1024 * 1024
SYSTEM_CALL = re.compile(r"^\d+ +(\w+)\((\d+)<([^>]*)>")


@contextmanager
def powered(folder: Path) -> Iterator[tuple[Path, Path]]:
    image = folder / "live.img"
    make_image(image, IMAGE_BYTES)
    with mounted(folder / "live", "-o", "loop", str(image)) as place:
        yield image, place


@contextmanager
def after_the_cut(image: Path) -> Iterator[Path]:
    copy = image.with_name("cut.img")
    cut_power(image, copy)
    with mounted(image.with_name("cut"), "-o", "loop", str(copy)) as place:
        yield place


async def test_nothing_acknowledged_is_lost_i1(tmp_path: Path) -> None:
    try:
        with powered(tmp_path) as (image, place):
            store = SqliteStore(place / "outbox.db")
            await store.open()
            for cut in range(CUTS):
                await add_many(store, f"{cut}-", callers=16, wanted=40)
                with after_the_cut(image) as found:
                    ids = [f"{life}-{n:07}" for life in range(cut + 1) for n in range(40)]
                    assert await missing(found / "outbox.db", ids) == []
            await store.close()
    except MountRefused:
        assert_synced_before_each_answer(tmp_path)


async def test_a_cut_may_undo_a_claim_but_no_mark_and_no_durable_claim(tmp_path: Path) -> None:
    try:
        with powered(tmp_path) as (image, place):
            store = SqliteStore(place / "outbox.db")
            await store.open()
            await store.add([samples.new("d1"), samples.new("d2")])
            [sent] = await store.claim(samples.claim(limit=1, durable=False))
            with after_the_cut(image) as found:
                assert (await stored(found, "d1")).state == "pending"
            mark = transitions.mark_committing(sent.delivery, now_ms=samples.NOW_MS, frozen={})
            assert await store.save([mark]) == [True]
            with after_the_cut(image) as found:
                assert (await stored(found, "d1")).committing
            await store.claim(samples.claim(limit=1))
            with after_the_cut(image) as found:
                assert (await stored(found, "d2")).unsettled_claims == 1
            await store.close()
    except MountRefused:
        assert_synced_before_each_answer(tmp_path)


async def stored(place: Path, delivery_id: str) -> Delivery:
    store = SqliteStore(place / "outbox.db")
    await store.open()
    try:
        found = await store.get(delivery_id)
        assert found is not None
        return found
    finally:
        await store.close()


def test_the_cut_is_a_real_one(tmp_path: Path) -> None:
    """With weaker settings the same cut loses what was committed: the test above can fail."""
    try:
        with powered(tmp_path) as (image, place):
            connection = sqlite3.connect(place / "weak.db", isolation_level=None)
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
            connection.execute("create table t (n integer)")
            connection.execute("pragma wal_checkpoint(truncate)")
            connection.execute("insert into t values (1)")
            with after_the_cut(image) as found:
                cut = sqlite3.connect(found / "weak.db")
                assert cut.execute("select count(*) from t").fetchone() == (0,)
                cut.close()
            connection.close()
    except MountRefused:
        # Then the trace stands in for the cut; it must tell a sync from none.
        assert not synced_before_each_answer(
            ["1 pwrite64(5</x-wal>, 1, 1, 0) = 1", "1 write(1<pipe:[1]>, d0) = 3"]
        )


def test_the_log_is_synced_before_each_answer_i1(tmp_path: Path) -> None:
    assert_synced_before_each_answer(tmp_path)


def assert_synced_before_each_answer(folder: Path) -> None:
    trace = folder / "trace"
    tracer = ["strace", "-f", "-y", "-o", str(trace), "-e", "trace=pwrite64,fdatasync,fsync,write"]
    said = run([*tracer, *adder(folder / "traced.db", "d", callers=1, count=30)])

    assert len(acknowledged(said)) == 30
    assert synced_before_each_answer(trace.read_text().splitlines())


def synced_before_each_answer(trace: list[str]) -> bool:
    """Between two answers the log was written, and synced after the last write to it."""
    unsynced, synced, answers = False, False, 0
    for line in trace:
        call = SYSTEM_CALL.match(line)
        if call is None:
            continue
        name, descriptor, file = call.groups()
        if file.endswith("-wal"):
            if name == "pwrite64":
                unsynced, synced = True, False
            elif name in ("fdatasync", "fsync"):
                unsynced, synced = False, True
        elif name == "write" and descriptor == "1" and "ready" not in line:
            if unsynced or not synced:
                return False
            answers, synced = answers + 1, False
    return answers > 0


def test_concurrent_callers_share_their_syncs(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    tracer = ["strace", "-f", "-y", "-o", str(trace), "-e", "trace=fdatasync"]

    said = run([*tracer, *adder(tmp_path / "traced.db", "d", callers=64, count=640)])

    assert len(acknowledged(said)) == 640
    assert 0 < trace.read_text().count("-wal>") < 640 / 8


async def test_a_failed_sync_is_never_called_stored_i1(tmp_path: Path) -> None:
    """The n-th sync reports an I/O error, for every n of a short life."""
    seen: set[str] = set()
    for nth in range(1, 16):
        path = tmp_path / f"{nth}.db"
        tracer = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync,fsync"]
        tracer += ["-e", f"inject=fdatasync,fsync:error=EIO:when={nth}"]

        said = await asyncio.to_thread(run, [*tracer, *adder(path, "d", callers=1, count=6)])

        seen.update(line for line in said if line.startswith("!"))
        assert await missing(path, acknowledged(said)) == []
    assert "! StoreOutcomeUnknown" in seen
