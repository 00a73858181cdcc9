"""A batch changes the index exactly as reading the files does, and as it changes the reference."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import cast

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Attempt, Content, Delivery
from homing.domain.errors import StoreOutcomeUnknown
from homing.domain.shown import Projection
from homing.domain.writes import Write, write_of_change, write_of_new
from homing.ports import Added, Answers, Batch, PurgeKind, PurgeRule, Put, Renewal, Store
from homing.stores.jsonl import JsonlStore, files, log
from homing.stores.memory import MemoryStore
from homing.testing import samples
from homing.testing.contract.foreign import foreign_projection
from homing.testing.samples import LEASE_MS, NOW_MS

NAMES = [f"d{number}" for number in range(6)]
KINDS: tuple[PurgeKind, ...] = ("delivery", "payload", "attempts", "keys", "facts")


async def picture(store: Store) -> list[object]:
    return [
        await store.get_many(NAMES),
        [await store.content(name) for name in NAMES],
        [await store.attempts(name) for name in NAMES],
        [await store.find(samples.SOURCE, name) for name in NAMES],
        await store.facts("note"),
        await store.next_due_ms((samples.QUEUE,)),
    ]


class Draws:
    """Batches of all kinds, about few deliveries, so that they meet in each of them."""

    def __init__(self, seed: int, known: list[Delivery | None]) -> None:
        self._random = Random(seed)
        # As the writes before in the batch will have left it, if they hold.
        self._known = dict(zip(NAMES, known, strict=True))

    def batch(self) -> Batch:
        random = self._random
        return Batch(
            [self._put() for _ in range(random.randrange(4))],
            [self._renewal() for _ in range(random.randrange(2))],
            [self._purge() for _ in range(random.randrange(2))],
            [samples.claim(limit=random.randrange(4)) for _ in range(random.randrange(3))],
        )

    def _put(self) -> Put:
        writes = [self._write() for _ in range(self._random.randrange(4))]
        value = {"n": self._random.random()} if self._random.random() < 0.7 else None
        return Put(writes, [replace(samples.fact(self._random.choice(NAMES)), value=value)])

    def _write(self) -> Write:
        random, name = self._random, self._random.choice(NAMES)
        before = self._known.get(name)
        if before is None or random.random() < 0.1:
            keyed = samples.keyed(name, random.choice(NAMES), payload=random.randbytes(9))
            new = random.choice([keyed, samples.new(name, payload=random.randbytes(9))])
            new = replace(new, results=random.choice([{}, {"first": b"1"}]))
            self._known[name] = before or new.delivery
            return write_of_new(new)
        change = samples.retry(before) if random.random() < 0.5 else samples.ended(before)
        change = replace(
            change,
            ended=tuple(samples.attempt(name, n) for n in range(1, random.randrange(1, 4))),
            results=random.choice([{}, {"send": random.randbytes(3)}]),
            forget=random.random() < 0.2,
        )
        if random.random() < 0.2:
            amended = replace(change.delivery, payload_no=before.payload_no + 1)
            change = replace(change, delivery=amended, payload=random.randbytes(5))
        after = replace(change.delivery, version=before.version + 1)
        self._known[name] = None if change.forget else after
        return write_of_change(change)

    def _renewal(self) -> Renewal:
        held = [(one.id, one.version) for one in self._known.values() if one is not None]
        return Renewal("w1", held, NOW_MS + LEASE_MS * self._random.randrange(1, 5))

    def _purge(self) -> PurgeRule:
        return PurgeRule(what=self._random.choice(KINDS), before_ms=NOW_MS + 1, limit=2)


@pytest.mark.parametrize("projection", [None, foreign_projection()], ids=["default", "layout"])
@pytest.mark.parametrize("seed", range(12))
async def test_the_index_is_what_the_files_say_i25(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, projection: Projection | None, seed: int
) -> None:
    """Its own view, that of another process, of one that begins, and after both compactions."""
    monkeypatch.setattr(log, "JOURNAL_BYTES", 3000)
    reference, store, other = MemoryStore(), *(JsonlStore(tmp_path / "queue") for _ in range(2))
    for one in (store, other):
        if projection is not None:
            one.show(projection)
        await one.open()
    for number in range(15):
        draws = Draws(100 * seed + number, await reference.get_many(NAMES))
        batch = draws.batch()

        assert same(await store.commit(batch), await reference.commit(batch))

        expected = await picture(reference)
        assert await picture(store) == expected
        assert await picture(other) == expected
        if number % 5 == 4:
            begun = JsonlStore(tmp_path / "queue")
            await begun.open()
            assert await picture(begun) == expected
            await begun.close()
    await store.compact()
    assert await picture(store) == await picture(other) == await picture(reference)
    for one in (store, other):
        await one.close()


def same(ours: Answers, theirs: Answers) -> bool:
    return list(map(list, ours.puts)) == list(map(list, theirs.puts)) and (
        ours.renewals,
        ours.purges,
        ours.claims,
    ) == (theirs.renewals, theirs.purges, theirs.claims)


class Appending:
    """A program that takes no lock appends while the first line of a batch is made."""

    def __init__(self, queue: Path) -> None:
        self._queue: Path | None = queue
        self._shown = foreign_projection()

    def __getattr__(self, name: str) -> object:
        return getattr(self._shown, name)

    def line(
        self,
        delivery: Delivery,
        content: Callable[[], Content],
        attempts: Sequence[Attempt],
        head: bytes | None,
    ) -> tuple[bytes, int] | None:
        if self._queue is not None:
            with self._queue.open("ab") as file:
                file.write(b'{"number":"f1"}\n')
            self._queue = None
        return self._shown.line(delivery, content, attempts, head)


async def appended_to(queue: Path) -> tuple[JsonlStore, Batch]:
    store = JsonlStore(queue)
    store.show(cast("Projection", Appending(queue)))
    await store.open()
    put = Put([write_of_new(samples.keyed("d1", "d1", payload=b"body"))])
    return store, Batch(puts=[put], claims=[samples.claim()])


async def test_a_line_that_comes_into_a_batch_is_found(tmp_path: Path) -> None:
    """The claim reads what the put has written behind it."""
    store, batch = await appended_to(tmp_path / "queue")

    answers = await store.commit(batch)

    assert answers.puts == [[Added("d1")]]
    assert [one.content.payload for one in answers.claims[0]] == [b"body"]
    assert [line.data for line in await store.foreign_lines()] == [b'{"number":"f1"}']
    assert await store.get("d1") == answers.claims[0][0].delivery
    assert not list((tmp_path / "queue.d").glob("damaged-*"))
    await store.close()


async def test_a_line_that_comes_into_a_batch_is_not_cut_off_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, batch = await appended_to(tmp_path / "queue")

    with monkeypatch.context() as patch:
        patch.setattr(files.AppendFile, "sync", refuse)
        with pytest.raises(StoreOutcomeUnknown):
            await store.commit(batch)

    assert [line.data for line in await store.foreign_lines()] == [b'{"number":"f1"}']
    found = await store.get("d1")
    assert found is not None
    assert found.state == "in_flight"
    await store.close()


def refuse(_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))
