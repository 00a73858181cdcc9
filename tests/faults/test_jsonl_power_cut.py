"""A power cut loses nothing that a JSONL store has acknowledged (I1).

Where mounting is allowed the power is really cut (see `test_sqlite_power_cut`); where it is not, a
trace shows that each file was synced before the answer. The trace is looked at in any case.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from homing.domain import transitions
from homing.domain.writes import write_of_new
from homing.ports import Batch, Put
from homing.stores.jsonl import JsonlStore
from homing.testing import samples
from tests.faults.adder import add_many
from tests.faults.adding import acknowledged, adder, missing, run
from tests.faults.disks import MountRefused
from tests.faults.syncs import recorded
from tests.faults.test_sqlite_power_cut import after_the_cut, powered

CUTS = 5
SYSTEM_CALL = re.compile(r"^\d+ +(\w+)\((\d+)<([^>]*)>")


async def test_nothing_acknowledged_is_lost_i1(tmp_path: Path) -> None:
    try:
        with powered(tmp_path) as (image, place):
            store = JsonlStore(place / "queue.jsonl")
            await store.open()
            for cut in range(CUTS):
                await add_many(store, f"{cut}-", callers=16, wanted=40)
                with after_the_cut(image) as found:
                    ids = [f"{life}-{n:07}" for life in range(cut + 1) for n in range(40)]
                    assert await missing(found / "queue.jsonl", ids) == []
            await store.close()
    except MountRefused:
        assert_synced_before_each_answer(tmp_path)


async def test_a_cut_may_undo_a_claim_but_no_mark(tmp_path: Path) -> None:
    """That the claim is gone shows that the cut is a real one."""
    try:
        with powered(tmp_path) as (image, place):
            store = JsonlStore(place / "queue.jsonl")
            await store.open()
            await store.add(samples.many(1))
            [held] = await store.claim(samples.claim(durable=False))
            with after_the_cut(image) as found:
                assert await state(found) == ("pending", False)
            mark = transitions.mark_committing(held.delivery, now_ms=samples.NOW_MS, frozen={})
            assert await store.save([mark]) == [True]
            with after_the_cut(image) as found:
                assert await state(found) == ("in_flight", True)
            await store.close()
    except MountRefused:
        assert_synced_before_each_answer(tmp_path)


async def state(place: Path) -> tuple[str, bool]:
    store = JsonlStore(place / "queue.jsonl")
    await store.open()
    try:
        found = await store.get("d00000")
        assert found is not None
        return found.state, found.committing
    finally:
        await store.close()


def test_the_queue_is_synced_before_each_answer_i1(tmp_path: Path) -> None:
    assert_synced_before_each_answer(tmp_path)


async def test_what_lies_beside_the_queue_is_synced_before_it_i1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit is complete with its last line in the queue; by then all of it must be there."""
    store = JsonlStore(tmp_path / "queue.jsonl")
    await store.open()
    calls = recorded(monkeypatch)

    await store.add([samples.keyed("d1", "k1")], [samples.fact("beat", kind="worker", n=1)])
    monkeypatch.undo()
    await store.close()

    journal, queue = tmp_path / "queue.jsonl.d" / "journal.jsonl", tmp_path / "queue.jsonl"
    assert [call for call in calls if call[1] in (journal, queue)] == [
        ("write", journal),
        ("fdatasync", journal),
        ("write", queue),
        ("fdatasync", queue),
    ]


async def test_an_add_beside_what_need_not_last_is_synced_i1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim finds what the add has stored, and is in the same sync."""
    store = JsonlStore(tmp_path / "queue.jsonl")
    await store.open()
    calls = recorded(monkeypatch)
    put = Put([write_of_new(samples.new("d1"))])
    answers = await store.commit(Batch(puts=[put], claims=[samples.claim(durable=False)]))
    monkeypatch.undo()
    await store.close()

    queue = tmp_path / "queue.jsonl"
    assert [one.delivery.id for one in answers.claims[0]] == ["d1"]
    assert [name for name, path in calls if path == queue] == ["write", "write", "fdatasync"]


async def test_the_names_of_new_files_are_synced_before_the_first_answer_i1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut must not lose a file whose content was synced, because its folder was not."""
    calls = recorded(monkeypatch)
    store = JsonlStore(tmp_path / "queue.jsonl")
    await store.open()
    opened = len(calls)
    await store.compact()
    monkeypatch.undo()
    await store.close()

    folder = tmp_path / "queue.jsonl.d"
    # The folder itself, the queue in it, and the journal in the other one.
    assert [path for name, path in calls[:opened] if name == "fsync"] == [
        tmp_path,
        tmp_path / "queue.jsonl",
        tmp_path,
        folder / "journal.jsonl",
        folder,
    ]
    for place, (name, path) in enumerate(calls):
        if name == "rename":
            assert ("fsync", path.with_name(f"{path.name}.new")) in calls[opened:place]
            assert calls[place + 1] == ("fsync", path.parent)
    assert [path.name for name, path in calls if name == "rename"] == [
        "journal.jsonl",
        "queue.jsonl",
    ]


def assert_synced_before_each_answer(folder: Path) -> None:
    """Of a delivery with its own key all lies in the queue: one write, one sync, the answer.

    Closing tells the journal how long the queue is.
    """
    trace = folder / "trace"
    tracer = ["strace", "-f", "-y", "-o", str(trace), "-e", "trace=write,fdatasync"]
    said = run([*tracer, *adder(folder / "traced.jsonl", "d", callers=1, count=30)])

    assert len(acknowledged(said)) == 30
    calls = "".join(letters(trace.read_text().splitlines()))
    assert re.fullmatch("(Qqa){30}J", calls), calls


def letters(trace: list[str]) -> list[str]:
    """J, Q: the journal or the queue is written; in small letters it is synced. a: an answer."""
    found: list[str] = []
    for line in trace:
        call = SYSTEM_CALL.match(line)
        if call is None:
            continue
        name, descriptor, file = call.groups()
        if file.endswith("journal.jsonl"):
            found.append("J" if name == "write" else "j")
        elif file.endswith("traced.jsonl"):
            found.append("Q" if name == "write" else "q")
        elif descriptor == "1" and "ready" not in line:
            found.append("a")
    return found


async def test_callers_in_one_batch_share_a_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonlStore(tmp_path / "queue.jsonl")
    await store.open()
    calls = recorded(monkeypatch)
    await store.commit(Batch(puts=[Put([write_of_new(one)]) for one in samples.many(64)]))
    monkeypatch.undo()
    await store.close()

    assert calls == [("write", tmp_path / "queue.jsonl"), ("fdatasync", tmp_path / "queue.jsonl")]


def test_concurrent_callers_share_their_syncs(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    tracer = ["strace", "-f", "-y", "-o", str(trace), "-e", "trace=fdatasync"]

    said = run([*tracer, *adder(tmp_path / "traced.jsonl", "d", callers=64, count=640)])

    assert len(acknowledged(said)) == 640
    assert 0 < trace.read_text().count("traced.jsonl>") < 640 / 8
