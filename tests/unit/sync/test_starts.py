"""One Homing is started once, in one event loop, and says so to whoever tries more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from homing import Email, Event, HandlerCall, Homing, NotAllowed
from homing.domain.errors import StoreOutcomeUnknown, StoreUnavailable

MAIL = Email(to="ann@example.org", subject="Hello", text="Ann")


@pytest.fixture(params=["memory:", "sqlite:///{folder}/app.db"])
def homing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Homing]:
    store = request.param.format(folder=tmp_path)
    homing = Homing(store, provider="stub:", sender="shop@example.org")
    yield homing
    homing.sync.stop()


async def test_sync_inside_async_with_is_refused_and_the_first_goes_on(homing: Homing) -> None:
    async with homing:
        for call in (
            lambda: homing.sync.submit(MAIL),
            lambda: homing.sync.send(MAIL),
            homing.sync.start,
            homing.sync.stop,
            homing.sync.__enter__,
        ):
            with pytest.raises(NotAllowed, match=r"await homing\.submit"):
                call()
        assert (await homing.send(MAIL)).delivery.state == "delivered"


async def test_a_thread_of_its_own_may_use_sync_beside_async_with(homing: Homing) -> None:
    async with homing:
        sent = await asyncio.to_thread(homing.sync.send, MAIL)
        assert sent.delivery.state == "delivered"
        with pytest.raises(NotAllowed, match="started already"):
            await asyncio.to_thread(homing.sync.start)
        await asyncio.to_thread(homing.sync.stop)
        assert (await homing.send(MAIL)).delivery.state == "delivered"


async def test_a_second_start_is_refused_and_the_first_goes_on(homing: Homing) -> None:
    async with homing:
        with pytest.raises(NotAllowed, match="started already"):
            async with homing:
                raise AssertionError("entered twice")
        with pytest.raises(NotAllowed, match="started already"):
            await homing.start()
        assert (await homing.send(MAIL)).delivery.state == "delivered"


async def test_of_two_starts_at_once_one_is_refused(homing: Homing) -> None:
    answers = await asyncio.gather(homing.start(), homing.start(), return_exceptions=True)
    assert [type(answer) for answer in answers] == [type(None), NotAllowed]
    assert (await homing.send(MAIL)).delivery.state == "delivered"
    await homing.stop()


def test_async_with_beside_sync_is_refused_and_sync_goes_on(homing: Homing) -> None:
    async def enter() -> None:
        async with homing:
            raise AssertionError("entered twice")

    homing.sync.start()
    with pytest.raises(NotAllowed, match="started already"):
        asyncio.run(enter())
    assert homing.sync.send(MAIL).delivery.state == "delivered"


def test_awaiting_in_another_loop_is_refused_and_not_left_hanging(homing: Homing) -> None:
    homing.sync.start()
    for call in (homing.submit, homing.send):
        with pytest.raises(NotAllowed, match="another event loop"):
            asyncio.run(call(MAIL))
    with pytest.raises(NotAllowed, match="another event loop"):
        asyncio.run(homing.stop())
    assert homing.sync.send(MAIL).delivery.state == "delivered"


def test_sync_in_a_handler_is_refused_and_does_not_hang(homing: Homing) -> None:
    said: list[str] = []

    @homing.on("paid")
    async def handle(event: HandlerCall) -> None:
        try:
            homing.sync.submit(MAIL)
        except NotAllowed as refused:
            said.append(str(refused))

    homing.sync.send(Event("paid"))
    assert "await homing.submit" in said[0]


def test_nested_with_sync_is_refused_and_the_first_goes_on(homing: Homing) -> None:
    with homing.sync:
        with pytest.raises(NotAllowed, match="entered already"), homing.sync:
            raise AssertionError("entered twice")
        assert homing.sync.send(MAIL).delivery.state == "delivered"


def test_it_can_be_stopped_and_started_again(homing: Homing) -> None:
    for _ in range(2):
        homing.sync.start()
        homing.sync.start()
        assert homing.sync.send(MAIL).delivery.state == "delivered"
        homing.sync.stop()
        homing.sync.stop()


def test_a_call_that_a_stop_cuts_off_says_so(homing: Homing) -> None:
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(lambda: homing.sync.run(wait()))
        assert begun.wait(60)
        homing.sync.stop()
        with pytest.raises(StoreOutcomeUnknown, match="stopped before this call ended"):
            call.result(60)


def test_any_call_may_be_the_first(homing: Homing) -> None:
    assert homing.sync.run(homing.ops.list()).items == ()


def test_a_failed_start_says_why_each_time_and_leaves_nothing(tmp_path: Path) -> None:
    homing = Homing(f"sqlite:///{tmp_path}/missing/app.db", provider="stub:", sender="a@b.example")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"app\.db"):
            homing.sync.start()
        assert homing.running_in is None
    (tmp_path / "missing").mkdir()
    assert homing.sync.send(MAIL).delivery.state == "delivered"
    homing.sync.stop()


async def test_without_a_start_it_is_refused_in_words(homing: Homing) -> None:
    with pytest.raises(NotAllowed, match="is not started: use `async with homing:`"):
        await homing.submit(MAIL)
