"""The loop in virtual time: nobody waits, the order is the seed's, and the dead stay dead."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.simulation.virtualtime import SPIN_LIMIT, Spinning, Stalled, new_loop, run


async def _noting(words: list[str], name: str, times: int = 20) -> None:
    for number in range(times):
        words.append(f"{name}{number}")
        await asyncio.sleep(0)


def _order(seed: int) -> list[str]:
    loop = new_loop(seed)
    words: list[str] = []

    async def main() -> None:
        tasks = [loop.spawn(loop.new_actor(name), _noting(words, name)) for name in ("a", "b", "c")]
        await asyncio.gather(*tasks)

    loop.run(main())
    return words


def test_a_day_of_sleep_takes_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(24 * 3600)
        return asyncio.get_running_loop().time()

    assert run(main()) == 24 * 3600


def test_timeouts_fire_at_their_virtual_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(10)
        return asyncio.get_running_loop().time()

    assert run(main()) == 5


def test_timers_fire_in_the_order_of_their_times() -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        loop = asyncio.get_running_loop()
        for delay_s in (3, 1, 2):
            loop.call_later(delay_s, fired.append, delay_s)
        cancelled = loop.call_later(1.5, fired.append, 99)
        cancelled.cancel()
        await asyncio.sleep(4)
        return fired

    assert run(main()) == [1, 2, 3]


def test_the_same_seed_gives_the_same_order_and_another_one_another() -> None:
    assert _order(1) == _order(1)
    assert len({tuple(_order(seed)) for seed in range(20)}) == 20


def test_each_party_keeps_its_own_order() -> None:
    words = _order(7)
    assert [w for w in words if w.startswith("b")] == [f"b{number}" for number in range(20)]
    assert words != sorted(words), "the actors must come in between each other"


def test_a_killed_party_runs_no_cleanup_and_is_never_heard_of_again() -> None:
    loop = new_loop()
    heard: list[str] = []
    actor = loop.new_actor("victim")

    async def victim() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            heard.append("cleanup")

    async def main() -> None:
        loop.spawn(actor, victim())
        await asyncio.sleep(1)
        loop.kill(actor)
        await asyncio.sleep(100)
        heard.append("the world goes on")

    loop.run_until_complete(main())
    assert heard == ["the world goes on"]
    assert not actor.is_alive
    loop.close()


@pytest.mark.parametrize("countdown", range(1, 12))
def test_a_fuse_ends_a_party_between_any_two_callbacks(countdown: int) -> None:
    loop = new_loop(countdown)
    words: list[str] = []
    actor = loop.new_actor("p")
    actor.countdown = countdown
    actor.on_countdown = lambda: loop.kill(actor)

    async def main() -> None:
        loop.spawn(actor, _noting(words, "p"))
        await asyncio.sleep(1)

    loop.run(main())
    assert len(words) == countdown


def test_a_frozen_party_stands_still_while_time_goes_on_and_then_catches_up() -> None:
    loop = new_loop()
    woke_at_s: list[float] = []
    actor = loop.new_actor("zombie")

    async def zombie() -> None:
        await asyncio.sleep(2)
        woke_at_s.append(loop.time())

    async def main() -> None:
        loop.spawn(actor, zombie())
        await asyncio.sleep(1)
        loop.freeze(actor)
        await asyncio.sleep(60)
        assert woke_at_s == []
        loop.thaw(actor)
        await asyncio.sleep(1)

    loop.run(main())
    assert woke_at_s == [61]


def test_what_the_world_does_outlives_the_party_that_asked_for_it() -> None:
    loop = new_loop()
    done: list[float] = []
    actor = loop.new_actor("sender")

    async def sender() -> None:
        loop.call_outside(5, lambda: done.append(loop.time()))
        await asyncio.sleep(100)

    async def main() -> None:
        loop.spawn(actor, sender())
        await asyncio.sleep(1)
        loop.kill(actor)
        await asyncio.sleep(10)

    loop.run(main())
    assert done == [5]


def test_waiting_for_nothing_is_said_not_waited_for() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stalled):
        run(main())


def test_a_loop_that_never_lets_time_pass_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulation.virtualtime.SPIN_LIMIT", 5000)
    assert SPIN_LIMIT > 100_000, "busy seconds of a large world must pass"

    async def main() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(Spinning):
        run(main())


def test_a_callback_that_raises_is_known_and_the_others_go_on() -> None:
    loop = new_loop()

    async def main() -> float:
        loop.call_soon(int, "no number")
        await asyncio.sleep(1)
        return loop.time()

    assert loop.run_until_complete(main()) == 1
    errors = [error for actor in loop.actors for error in actor.broken_callbacks]
    assert [type(error) for error in errors] == [ValueError]
    loop.close()


def test_tasks_that_failed_unheard_are_known() -> None:
    loop = new_loop()
    actor = loop.new_actor("p")

    async def fails() -> None:
        raise ValueError("nobody asked")

    async def main() -> None:
        loop.spawn(actor, fails())
        await asyncio.sleep(1)

    loop.run_until_complete(main())
    assert [type(task.exception()) for task in actor.failed] == [ValueError]
    loop.close()
