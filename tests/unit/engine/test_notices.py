"""Notices cost what is new, and a notifier that hangs delays no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path

import pytest

from homing.domain.delivery import Attempt, Change, Delivery, Fact
from homing.domain.errors import StoreUnavailable
from homing.domain.failure import Failure
from homing.engine.process import notices as notices_module
from homing.engine.process.notices import (
    CLOCKS_DIFFER_S,
    LOOK_THROUGH_EVERY_S,
    MOST_REFUSALS,
    NOTICES_EVERY_S,
    REST_AFTER_SILENCE_S,
)
from homing.observers import DELIVERY_LOG
from homing.observers.delivery_log import DeliveryLog
from homing.ports import Cursor, Notice, Page, Query
from homing.stores.memory import MemoryStore
from tests.unit.engine.world import Bell, Script, World, route

HARD = Failure("gone", "reject")


class CountingStore(MemoryStore):
    """Counts what it gives to those that list or get deliveries."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        page = await super().page(query, cursor, limit)
        self.read += len(page.items)
        return page

    async def get_many(self, delivery_ids: Sequence[str]) -> list[Delivery | None]:
        self.read += len(delivery_ids)
        return await super().get_many(delivery_ids)


async def dead_letters(world: World, number: int) -> None:
    for nth in range(number):
        await world.submit(str(nth))
    await world.run()


async def pass_time(world: World, s: float) -> int:
    world.clock.advance(s)
    return sum([await notices.give_due() for notices in world.engine.notices])


async def test_dead_letters_with_nobody_to_notify_are_not_read_again_and_again() -> None:
    """Some are owed to a notifier that is not here, and none is new."""
    store, bell = CountingStore(), Bell()
    rules = {"notify_on_failed": ("fax",)}
    world = World(route(step=Script(*[HARD] * 600), rules=rules), store=store, notifiers=(bell,))
    await dead_letters(world, 600)
    await pass_time(world, CLOCKS_DIFFER_S + 1)
    store.read = 0

    for _ in range(10):
        await pass_time(world, NOTICES_EVERY_S)

    assert store.read == 0
    assert bell.notified == []


async def test_without_notifiers_nothing_is_looked_for() -> None:
    assert World().engine.notices == []


async def test_a_notifier_that_refuses_is_asked_about_some_and_gets_all_in_the_end() -> None:
    store, bell = CountingStore(), Bell()
    world = World(route(step=Script(*[HARD] * 300)), store=store, notifiers=(bell,))
    bell.deaf = True
    await dead_letters(world, 300)
    await pass_time(world, CLOCKS_DIFFER_S + 1)
    store.read, bell.notified = 0, []

    await pass_time(world, CLOCKS_DIFFER_S + 1)
    assert len(bell.notified) == store.read == MOST_REFUSALS

    bell.deaf, bell.notified = False, []
    assert await pass_time(world, NOTICES_EVERY_S) == 300
    assert len({letter for _, letter in bell.notified}) == 300


@pytest.mark.parametrize("clock_behind_s", [0.0, CLOCKS_DIFFER_S / 2])
async def test_what_another_process_came_to_owe_is_given_here(clock_behind_s: float) -> None:
    store, bell = CountingStore(), Bell()
    world = World(store=store, notifiers=(bell,))
    await pass_time(world, 0)
    other = World(route(step=Script(HARD)), store=store, name="other")
    other.clock.jump(-clock_behind_s)
    letter = await other.submit()
    await other.run()
    store.read = 0

    await pass_time(world, NOTICES_EVERY_S)

    assert bell.notified == [("alert", letter.id)]
    assert store.read <= 3


async def test_all_that_is_due_is_looked_through_now_and_then() -> None:
    """Even what was missed because clocks differ a lot."""
    bell = Bell()
    world = World(notifiers=(bell,))
    await pass_time(world, LOOK_THROUGH_EVERY_S)
    other = World(route(step=Script(HARD)), store=world.store, name="other")
    letter = await other.submit()
    await other.run()

    await pass_time(world, NOTICES_EVERY_S)
    assert bell.notified == []
    await pass_time(world, LOOK_THROUGH_EVERY_S)

    assert bell.notified == [("alert", letter.id)]


class Hanging:
    notices: Collection[str] = ("alert",)
    most_at_once = 2

    def __init__(self) -> None:
        self.asked = 0

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        self.asked += 1
        await asyncio.Event().wait()
        return [True] * len(group)


class LogBell(Bell):
    notices: Collection[str] = ("log",)

    def __init__(self) -> None:
        super().__init__()
        self.rang = asyncio.Event()

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        self.rang.set()
        return await super().notify(kind, group)


async def test_a_hanging_notifier_does_not_delay_other_notices() -> None:
    hanging, log = Hanging(), LogBell()
    rules = {"notify_on_failed": ("alert", "log")}
    world = World(route(step=Script(HARD), rules=rules), notifiers=(hanging, log))
    await world.engine.start()
    letter = await world.submit()

    async with asyncio.timeout(5):
        await log.rang.wait()
    await world.engine.stop()

    assert log.notified == [("log", letter.id)]


async def test_a_notifier_that_does_not_answer_is_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notices_module, "NOTIFY_WITHIN_S", 0.001)
    hanging, bell = Hanging(), Bell()
    world = World(route(step=Script(*[HARD] * 5)), notifiers=(hanging, bell))

    await dead_letters(world, 4)

    assert hanging.asked == 1
    assert len(bell.notified) == 4, "the next notifier takes them"
    world.clock.advance(REST_AFTER_SILENCE_S)
    await dead_letters(world, 5)
    assert hanging.asked == 2


async def test_two_kinds_of_one_delivery_are_both_marked() -> None:
    """Each kind is given in a task of its own, and both write the same record."""
    bell = Bell()
    rules = {"notify_on_failed": ("alert", "log")}
    world = World(route(step=Script(HARD), rules=rules), notifiers=(bell,))
    letter = await world.submit()
    held = await world.engine.workers["event"]._claim(1)
    await world.engine.runner.run(held, wait=True)

    await asyncio.gather(*(notices.give_due() for notices in world.engine.notices))

    assert (await world.get(letter.id)).notices_due == ()
    assert sorted(bell.notified) == [("alert", letter.id), ("log", letter.id)]


class Clumsy(Bell):
    """Fails for one delivery."""

    clumsy_about = ""

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        if self.clumsy_about in [notice.delivery.id for notice in group]:
            raise RuntimeError("no template for it")
        return await super().notify(kind, group)


async def test_a_notice_that_makes_its_notifier_fail_does_not_stop_the_others() -> None:
    bell = Clumsy()
    world = World(route(step=Script(*[HARD] * 3)), notifiers=(bell,))
    letters = [await world.submit(str(nth)) for nth in range(3)]
    bell.clumsy_about = letters[1].id

    await world.run()

    told = {letter for _, letter in bell.notified}
    assert told == {letters[0].id, letters[2].id}
    assert (await world.get(letters[1].id)).notices_due == ("alert",)


class Choosy(Bell):
    """Refuses one delivery; `groups` has the sizes of what it was asked for."""

    refuses = ""

    def __init__(self, most_at_once: int) -> None:
        super().__init__()
        self.most_at_once = most_at_once
        self.groups: list[int] = []

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        await super().notify(kind, group)
        self.groups.append(len(group))
        return [notice.delivery.id != self.refuses for notice in group]


class Ledger(CountingStore):
    """Counts reads of attempts and writes; `fails` makes those reads fail."""

    fails = False

    def __init__(self) -> None:
        super().__init__()
        self.attempt_reads = self.marks = 0

    async def attempts_of_many(self, delivery_ids: Sequence[str]) -> list[list[Attempt]]:
        self.attempt_reads += 1
        if self.fails:
            raise StoreUnavailable("no answer")
        return await super().attempts_of_many(delivery_ids)

    async def save(self, changes: Sequence[Change], facts: Sequence[Fact] = ()) -> list[bool]:
        self.marks += any(not change.delivery.notices_due for change in changes)
        return await super().save(changes, facts)


async def test_one_that_is_refused_stays_due_and_the_rest_of_its_group_does_not() -> None:
    bell = Choosy(most_at_once=100)
    world = World(route(step=Script(*[HARD] * 5)), notifiers=(bell,))
    letters = [await world.submit(str(nth)) for nth in range(5)]
    bell.refuses = letters[2].id

    await world.run()

    due = [bool((await world.get(letter.id)).notices_due) for letter in letters]
    assert due == [False, False, True, False, False]
    bell.notified, bell.refuses = [], ""
    assert await pass_time(world, LOOK_THROUGH_EVERY_S) == 1
    assert bell.notified == [("alert", letters[2].id)]


async def test_refused_ones_that_the_store_cannot_read_are_tried_again() -> None:
    store, bell = Ledger(), Bell()
    world = World(route(step=Script(*[HARD] * 3)), store=store, notifiers=(bell,))
    bell.deaf = True
    await dead_letters(world, 3)
    await pass_time(world, CLOCKS_DIFFER_S + 1)
    bell.deaf, store.fails = False, True
    with pytest.raises(StoreUnavailable):
        await pass_time(world, CLOCKS_DIFFER_S + 1)
    store.fails = False

    assert await pass_time(world, NOTICES_EVERY_S) == 3


async def test_a_group_is_read_and_marked_at_once_and_is_as_large_as_its_notifier_takes() -> None:
    store, bell = Ledger(), Choosy(most_at_once=4)
    world = World(route(step=Script(*[HARD] * 10)), store=store, notifiers=(bell,))

    await dead_letters(world, 10)

    assert bell.groups == [4, 4, 2]
    assert (store.attempt_reads, store.marks) == (1, 3)


class Meddling(Bell):
    """Something happens to the deliveries while they are being told of."""

    def __init__(self, meddle: Callable[[str], Awaitable[object]]) -> None:
        super().__init__()
        self._meddle: Callable[[str], Awaitable[object]] | None = meddle

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        meddle, self._meddle = self._meddle, None
        if meddle is not None:
            await meddle(group[0].delivery.id)
        return await super().notify(kind, group)


async def test_one_that_changes_while_it_is_told_of_is_marked_with_the_others() -> None:
    async def dismiss(delivery_id: str) -> None:
        await world.engine.ops.dismiss(delivery_id, actor="ann", reason="seen")

    bell = Meddling(dismiss)
    world = World(route(step=Script(*[HARD] * 3)), notifiers=(bell,))
    letters = [await world.submit(str(nth)) for nth in range(3)]

    await world.run()

    assert [(await world.get(letter.id)).notices_due for letter in letters] == [()] * 3
    assert len(bell.notified) == 3


async def test_one_that_is_replayed_and_dies_again_meanwhile_is_told_of_again() -> None:
    async def replay(delivery_id: str) -> None:
        await world.engine.ops.replay(delivery_id, actor="ann", reason="again")
        [work] = await world.engine.workers["event"]._claim(1)
        await world.engine.runner.run([work], wait=True)

    bell = Meddling(replay)
    world = World(route(step=Script(*[HARD] * 2)), notifiers=(bell,))
    letter = await world.submit()
    held = await world.engine.workers["event"]._claim(1)
    await world.engine.runner.run(held, wait=True)
    [notices, _] = world.engine.notices

    await notices.give_noted()

    assert bell.notified == [("alert", letter.id)] * 2
    assert (await world.get(letter.id)).notices_due == ()


class Slow(Bell):
    """Waits for a signal before it takes anything."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        self.asked.set()
        await self.may_go_on.wait()
        return await super().notify(kind, group)


async def test_a_caller_waits_for_a_notice_that_the_engine_is_giving_and_gives_no_second() -> None:
    bell = Slow()
    world = World(route(step=Script(HARD)), notifiers=(bell,))
    letter = await world.submit()
    held = await world.engine.workers["event"]._claim(1)
    await world.engine.runner.run(held, wait=True)
    [notices, _] = world.engine.notices

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(notices.give_due())
        await bell.asked.wait()
        caller = tasks.create_task(notices.give_noted())
        bell.may_go_on.set()
        await caller
        assert (await world.get(letter.id)).notices_due == ()

    assert bell.notified == [("alert", letter.id)]


class Dying(MemoryStore):
    """The process dies before the marks of a group are stored."""

    dies = True

    async def save(self, changes: Sequence[Change], facts: Sequence[Fact] = ()) -> list[bool]:
        if self.dies and any(change.delivery.state == "delivered" for change in changes):
            ended = [change for change in changes if change.ended]
            if not ended:
                raise StoreUnavailable("the process died")
        return await super().save(changes, facts)


async def test_a_crash_between_the_lines_and_the_marks_of_a_group_doubles_no_line(
    tmp_path: Path,
) -> None:
    log, store = tmp_path / "log", Dying()
    rules = {"notify_on_delivered": (DELIVERY_LOG,)}
    world = World(route(rules=rules), store=store, notifiers=(DeliveryLog(log),))
    letters = [await world.submit(str(nth)) for nth in range(3)]
    with pytest.raises(StoreUnavailable):
        await world.run()
    assert len(log.read_text().splitlines()) == 3
    store.dies = False

    again = World(route(rules=rules), store=store, notifiers=(DeliveryLog(log),), name="again")
    await again.run()

    assert len(log.read_text().splitlines()) == 3
    assert [(await again.get(letter.id)).notices_due for letter in letters] == [()] * 3
