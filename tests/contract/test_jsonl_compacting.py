"""Compaction: of the queue by consent alone, of the journal beside it at any time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from homing.cli.main import app
from homing.domain.delivery import Change, Content
from homing.domain.writes import write_of_change, write_of_new
from homing.ports import Batch, Existing, PurgeRule, Put, Query
from homing.stores.jsonl import JsonlStore, log
from homing.testing import samples
from homing.testing.contract.foreign import foreign_projection
from homing.testing.samples import LEASE_MS, NOW_MS


async def filled(queue: Path) -> JsonlStore:
    """One delivered, one in flight with a longer lease, one removed, one without its payload."""
    store = JsonlStore(queue)
    await store.open()
    await store.add([samples.keyed(name, name, payload=name.encode()) for name in "abcde"])
    held = {one.delivery.id: one.delivery for one in await store.claim(samples.claim(limit=4))}
    done = replace(samples.ended(held["a"]), results={"send": b"x"}, ended=(samples.attempt("a"),))
    await store.save([done, replace(samples.ended(held["c"]), forget=True)])
    await store.renew("w1", [("b", held["b"].version)], NOW_MS + 7 * LEASE_MS)
    await store.save([samples.ended(held["d"], "failed")], facts=[samples.fact("noted")])
    rule = PurgeRule(what="payload", before_ms=NOW_MS + 1, states=("failed",))
    assert await store.purge(rule) == 1
    return store


async def picture(store: JsonlStore) -> list[object]:
    ids = list("abcde")
    return [
        await store.get_many(ids),
        [await store.content(one) for one in ids],
        [await store.attempts(one) for one in ids],
        [await store.find(samples.SOURCE, one) for one in ids],
        await store.facts("note"),
        await store.count(Query(), by=("state",)),
        await store.next_due_ms((samples.QUEUE,)),
    ]


async def test_nothing_that_counts_is_lost(tmp_path: Path) -> None:
    store = await filled(tmp_path / "queue.jsonl")
    other = JsonlStore(tmp_path / "queue.jsonl")
    await other.open()
    before = await picture(store)

    larger, smaller = await store.compact()

    assert smaller < larger
    assert await picture(store) == before
    assert await picture(other) == before
    assert await other.add([samples.keyed("z", "a")]) == [
        Existing("a", await other.find(samples.SOURCE, "a"))
    ]
    [held] = await other.claim(samples.claim("w2", limit=1))
    assert await store.get("e") == held.delivery
    await other.close()
    await store.close()
    again = JsonlStore(tmp_path / "queue.jsonl")
    await again.open()
    assert (await picture(again))[1:5] == before[1:5]
    await again.close()


async def test_lines_of_others_that_were_not_taken_stay(tmp_path: Path) -> None:
    queue = tmp_path / "queue.jsonl"
    store = await filled(queue)
    with queue.open("ab") as file:
        file.write(b'{"number":"f1"}\n{"number":"f2"}\n')
    [first, second] = await store.foreign_lines()
    await store.save([], facts=[first.taken])

    await store.compact()

    assert [line.data for line in await store.foreign_lines()] == [second.data]
    await store.close()


async def test_the_journal_is_compacted_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "JOURNAL_BYTES", 20_000)
    queue = tmp_path / "queue.jsonl"
    store = await filled(queue)
    other = JsonlStore(queue)
    await other.open()
    before, size = await picture(store), queue.stat().st_size

    for beat in range(300):
        await store.save([], facts=[samples.fact("beat", kind="worker", n=beat)])

    journal = tmp_path / "queue.jsonl.d" / "journal.jsonl"
    assert journal.stat().st_size < 30_000
    assert queue.stat().st_size == size
    assert await picture(store) == before
    assert await picture(other) == before
    assert await other.facts("worker") == [samples.fact("beat", kind="worker", n=299)]
    again = JsonlStore(queue)
    await again.open()
    assert await picture(again) == before
    [taken] = await again.claim(samples.claim(limit=1))
    assert await store.save([Change(taken.delivery)]) == [True]
    for opened in (again, other, store):
        await opened.close()


async def compacted(store: JsonlStore, queue: Path) -> JsonlStore:
    """Begun anew, after the journal was compacted."""
    for beat in range(100):
        await store.save([], facts=[samples.fact("beat", kind="worker", n=beat)])
    await store.close()
    again = JsonlStore(queue)
    await again.open()
    return again


@pytest.mark.parametrize("is_one_batch", [True, False])
async def test_what_was_removed_and_added_again_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_one_batch: bool
) -> None:
    """The lines before its removal are still in the queue, and nothing of them counts."""
    monkeypatch.setattr(log, "JOURNAL_BYTES", 5000)
    store = JsonlStore(tmp_path / "queue.jsonl")
    await store.open()
    old = replace(samples.new("d1", payload=b"old"), results={"send": b"old"})
    await store.add([old])
    removes = write_of_change(replace(samples.ended(old.delivery), forget=True))
    adds = write_of_new(samples.new("d1", payload=b"new"))

    for writes in [[removes, adds]] if is_one_batch else [[removes], [adds]]:
        await store.commit(Batch(puts=[Put(writes)]))

    again = await compacted(store, tmp_path / "queue.jsonl")
    assert await again.get("d1") == adds.delivery
    assert await again.content("d1") == Content(b"new")
    await again.close()


async def test_what_was_written_after_a_purge_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "JOURNAL_BYTES", 5000)
    store = JsonlStore(tmp_path / "queue.jsonl")
    store.show(foreign_projection())
    await store.open()
    await store.add([samples.new(name, payload=b"old") for name in "ab"])
    await store.save([samples.ended(samples.delivery(name), "failed") for name in "ab"])
    rule = PurgeRule(what="payload", before_ms=NOW_MS + 1, states=("failed",))
    assert await store.purge(rule) == 2
    [a, b] = [one for one in await store.get_many(["a", "b"]) if one is not None]

    await store.save(
        [
            Change(replace(a, payload_no=2), payload=b"amended"),
            Change(b, results={"note": b"1"}),
        ]
    )

    again = await compacted(store, tmp_path / "queue.jsonl")
    assert await again.content("a") == Content(b"amended", {"payload.1": b""})
    assert await again.content("b") == Content(b"", {"note": b"1"})
    await again.close()
    lines = [json.loads(line) for line in (tmp_path / "queue.jsonl").read_text().splitlines()]
    # What a line showed of the payload, the later ones still show.
    assert len({line["text"] for line in lines if line["number"] == "b"}) == 1


async def test_a_journal_that_mostly_counts_is_left_alone_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = tmp_path / "queue.jsonl"
    journal = tmp_path / "queue.jsonl.d" / "journal.jsonl"
    store = JsonlStore(queue)
    await store.open()
    await store.add([samples.keyed(f"d{n}", f"k{n}") for n in range(200)])
    await store.close()
    monkeypatch.setattr(log, "JOURNAL_BYTES", 1000)
    before = journal.stat().st_ino

    async def opened() -> int:
        again = JsonlStore(queue)
        await again.open()
        await again.close()
        return journal.stat().st_ino

    assert await opened() == before
    monkeypatch.setattr(log, "JOURNAL_BYTES", 10**9)
    await store.open()
    for beat in range(300):
        await store.save([], facts=[samples.fact("beat", kind="worker", n=beat)])
    await store.close()
    monkeypatch.setattr(log, "JOURNAL_BYTES", 1000)
    assert await opened() != before


def test_only_with_consent_o_077(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    at = ["--store", "jsonl:///queue.jsonl"]
    run = CliRunner().invoke
    mail = ["send", "--to", "ann@example.org", "--subject", "Hi", "--text", "Hi"]
    assert run(app, [*mail, *at]).exit_code == 0
    before = (tmp_path / "queue.jsonl").read_bytes()

    refused = run(app, ["compact", *at])

    assert refused.exit_code != 0
    assert "--yes" in str(refused.exception)
    assert (tmp_path / "queue.jsonl").read_bytes() == before
    done = run(app, ["compact", "--yes", *at])
    assert done.exit_code == 0
    assert "bytes after" in done.output
