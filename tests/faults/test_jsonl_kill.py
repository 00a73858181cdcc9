"""A JSONL store whose process is killed, or whose disk refuses, at every single write (I1, I2)."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.errors import StoreError, StoreFull, StoreOutcomeUnknown, StoreUnavailable
from homing.domain.writes import write_of_change, write_of_new
from homing.ports import Added, Batch, PurgeRule, Put, Renewal
from homing.stores.jsonl import JsonlStore, files
from homing.stores.jsonl.committing import execute
from homing.stores.jsonl.lines import is_whole
from homing.testing import samples
from tests.faults.adding import acknowledged, adder, missing, start
from tests.faults.disks import in_memory
from tests.faults.jsonl_logs import opened

Call = Callable[..., Any]
CALLS = ("write", "fdatasync", "ftruncate", "fsync")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


async def life(queue: Path, say: Callable[[str], None]) -> None:
    """Enqueue, claim, mark, dead letter: each is said once it is acknowledged."""
    store = JsonlStore(queue)
    await store.open()
    for name in ("a", "b"):
        await _do(store.add([_new(name), _new(f"{name}2")]), f"added {name} {name}2", say)
    held = await _do(store.claim(samples.claim(limit=3)), "claimed", say) or []
    for one in held:
        mark = transitions.mark_committing(one.delivery, now_ms=samples.NOW_MS, frozen={"f": b"x"})
        if await _do(store.save([mark]), f"marked {one.delivery.id}", say):
            marked = replace(mark.delivery, version=one.delivery.version + 1)
            dead = samples.ended(marked, "failed")
            tried = replace(dead, ended=(samples.attempt(one.delivery.id),))
            await _do(store.save([tried]), f"dead {one.delivery.id}", say)
    say("closing")
    await store.close()


def _new(name: str) -> Any:
    return samples.keyed(name, name, payload=name.encode() * 20)


async def _do(call: Any, done: str, say: Callable[[str], None]) -> Any:
    try:
        answer = await call
    except StoreError as error:
        say(f"! {type(error).__name__}")
        return None
    say(done)
    return answer


async def check(queue: Path, said: list[str]) -> None:
    """What was acknowledged is there, each call was all or nothing, and the store works on."""
    added = [name for line in said if line.startswith("added") for name in line.split()[1:]]
    assert await missing(queue, added) == []
    store = JsonlStore(queue)
    await store.open()
    for name in ("a", "b"):
        both = await store.get_many([name, f"{name}2"])
        assert (both[0] is None) is (both[1] is None)
    for line in said:
        verb, _, name = line.partition(" ")
        if verb in ("marked", "dead"):
            found = await store.get(name)
            assert found is not None
            assert found.committing
            assert verb == "marked" or len(await store.attempts(name)) == 1
            assert verb == "marked" or found.state == "failed"
    await store.add([_new("after")])
    await store.close()
    assert await missing(queue, ["after"]) == []
    for file in (queue, queue.with_name(f"{queue.name}.d") / "journal.jsonl"):
        assert all(is_whole(line) for line in file.read_bytes().splitlines())


class Trapped:
    """The n-th call of the operating system, among those that change a file, goes wrong."""

    def __init__(self, nth: int, spring: Callable[[Call, tuple[Any, ...]], Any]) -> None:
        self._nth = nth
        self._spring = spring
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CALLS:
            return real

        def call(*arguments: Any) -> Any:
            self.calls["all"] += 1
            if self.calls["all"] == self._nth:
                return self._spring(real, arguments)
            return real(*arguments)

        return call


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(_real: Call, _arguments: tuple[Any, ...]) -> None:
    _die()


def halfway(real: Call, arguments: tuple[Any, ...]) -> None:
    if len(arguments) > 1 and isinstance(arguments[1], bytes | memoryview):
        real(arguments[0], arguments[1][: len(arguments[1]) // 2])
    _die()


def after(real: Call, arguments: tuple[Any, ...]) -> None:
    real(*arguments)
    _die()


@pytest.mark.parametrize("when", [before, halfway, after])
def test_a_kill_at_any_write_loses_nothing_acknowledged_i1_i2(tmp_path: Path, when: Call) -> None:
    for nth in range(1, 200):
        queue = tmp_path / f"{nth}.jsonl"
        said, is_killed = _in_a_child(queue, nth, when)
        asyncio.run(check(queue, said))
        if not is_killed:
            assert nth > 20
            assert [line.split()[0] for line in said[-3:]] == ["marked", "dead", "closing"]
            return
    pytest.fail("it writes and writes")


def _in_a_child(queue: Path, nth: int, when: Call) -> tuple[list[str], bool]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            setattr(files, "os", Trapped(nth, when))  # noqa: B010 - in this process alone
            asyncio.run(life(queue, lambda line: _say(writing, line)))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    return said, os.WIFSIGNALED(status)


def _say(pipe: int, line: str) -> None:
    os.write(pipe, f"{line}\n".encode())


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_an_error_of_any_write_refuses_and_loses_nothing_i1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    seen: set[str] = set()
    said: list[str] = []
    told: list[str] = []

    def refuse(real: Call, arguments: tuple[Any, ...]) -> None:
        told[:] = said
        if len(arguments) > 1 and isinstance(arguments[1], memoryview):
            real(arguments[0], arguments[1][: len(arguments[1]) // 2])
        raise OSError(error, os.strerror(error))

    for nth in range(5, 200):  # the first ones open the files
        queue, trapped = tmp_path / f"{nth}.jsonl", Trapped(nth, refuse)
        said.clear()
        monkeypatch.setattr(files, "os", trapped)
        asyncio.run(life(queue, said.append))
        monkeypatch.undo()
        asyncio.run(check(queue, said))
        refusals = {line.removeprefix("! ") for line in said if line.startswith("!")}
        seen |= refusals
        if trapped.calls["all"] < nth:
            assert not refusals
            break
        # Closing keeps nothing for a caller.
        assert len(refusals) == (0 if "closing" in told else 1)
    wanted = StoreFull if error == errno.ENOSPC else StoreUnavailable
    assert seen == {wanted.__name__}


async def test_what_was_refused_cannot_be_read_i1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonlStore(tmp_path / "queue.jsonl")
    await store.open()
    await store.add([_new("a")])
    [held] = await store.claim(samples.claim(limit=1))
    before = await store.get("a"), await store.content("a")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(files.AppendFile, "append", refuse)
        mark = transitions.mark_committing(held.delivery, now_ms=samples.NOW_MS, frozen={"f": b"x"})
        with pytest.raises(StoreFull):
            await store.save([mark])
        with pytest.raises(StoreFull):
            await store.add([_new("b")])
        assert (await store.get("a"), await store.content("a")) == before
        found = await store.get("b"), await store.content("b"), await store.find("test", "b")
        assert found == (None, None, None)

    assert await store.save([mark]) == [True]
    assert await store.add([_new("b")]) == [Added("b")]
    await store.close()


async def picture(store: JsonlStore) -> list[object]:
    names = ["a", "b", "c", "d"]
    return [
        await store.get_many(names),
        [await store.content(name) for name in names],
        [await store.attempts(name) for name in names],
        [await store.find(samples.SOURCE, name) for name in names],
        await store.facts("note"),
        await store.next_due_ms((samples.QUEUE,)),
    ]


async def batches(store: JsonlStore) -> list[Batch]:
    """Of each kind, and of all kinds together."""
    await store.add([_new("a"), _new("b")], [samples.fact("old", at_ms=1)])
    [held] = await store.claim(samples.claim(limit=1))
    done = replace(samples.ended(held.delivery), ended=(samples.attempt("a"),), results={"r": b"1"})
    puts = [Put([write_of_change(done)]), Put([write_of_new(_new("c"))], [samples.fact("new")])]
    renewals = [Renewal("w1", [("a", held.delivery.version)], samples.NOW_MS + 10**6)]
    purges = [PurgeRule(what="facts", before_ms=2)]
    claims = [samples.claim(limit=2)]
    return [
        Batch(puts=puts),
        Batch(renewals=renewals),
        Batch(purges=purges),
        Batch(claims=claims),
        Batch(puts, renewals, purges, claims),
        Batch([Put([write_of_new(_new("d"))])], claims=claims),
    ]


@pytest.mark.parametrize("call", ["write", "fdatasync"])
@pytest.mark.parametrize("kind", range(6))
async def test_a_refused_batch_leaves_everything_as_it_was_i1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: int, call: str
) -> None:
    """At each write and each sync of it: there is no room. The same batch is stored later."""
    store = JsonlStore(tmp_path / "queue.jsonl")
    await store.open()
    batch = (await batches(store))[kind]
    before = await picture(store)
    real = getattr(os, call)
    calls = 0
    for nth in range(10):
        calls = 0

        def refuse(*arguments: Any, nth: int = nth) -> Any:
            nonlocal calls
            calls += 1
            if calls > nth:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, refuse)
            try:
                await store.commit(batch)
                break
            except StoreFull:
                assert await picture(store) == before
    after = await picture(store)
    # A renewal need not last.
    assert nth == calls
    assert nth > 0 or (call == "fdatasync" and not (batch.puts or batch.purges or batch.claims))
    assert after != before
    await store.close()
    again = JsonlStore(tmp_path / "queue.jsonl")
    await again.open()
    assert await picture(again) == after
    await again.close()


@pytest.mark.parametrize("kind", range(4))
def test_a_refused_request_does_not_cost_the_index_i1(tmp_path: Path, kind: int) -> None:
    """With no room, thousands may be refused: the files are not read again for each of them."""

    async def prepared() -> Batch:
        store = JsonlStore(tmp_path / "queue.jsonl")
        await store.open()
        batch = (await batches(store))[kind]
        await store.close()
        return batch

    batch = asyncio.run(prepared())
    with opened(tmp_path / "queue.jsonl") as log, pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "os", Trapped(1, _no_room))
        with pytest.raises(OSError, match="No space"):
            execute(log, batch, None)
        assert log.is_current


def _no_room(_real: Call, _arguments: tuple[Any, ...]) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_if_the_write_cannot_be_taken_back_nobody_knows_i1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonlStore(tmp_path / "queue.jsonl")
    await store.open()

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(StoreOutcomeUnknown):
            await store.add([_new("a")])
    stored = await store.get("a") is not None
    assert stored is (await store.find(samples.SOURCE, "a") is not None)
    await store.add([_new("a"), _new("b")])
    await store.close()
    assert await missing(tmp_path / "queue.jsonl", ["a", "b"]) == []


async def test_two_processes_append_without_mixing_their_lines_o_100(tmp_path: Path) -> None:
    queue = tmp_path / "queue.jsonl"
    processes = [start(adder(queue, name, callers=8, count=1000)) for name in ("x", "y")]
    said: list[str] = []
    try:
        for process in processes:
            text, _ = await asyncio.to_thread(process.communicate, None, 60)
            said += text.split("\n")[:-1]
    finally:
        for process in processes:
            process.kill()
            process.wait()

    ids = acknowledged(said)
    assert len(ids) == 2000
    assert await missing(queue, ids) == []
    lines = queue.read_bytes().splitlines()
    assert len(lines) == 2000
    assert all(is_whole(line) for line in lines)
