"""What a process looks after: notices due, leases of the dead, retention, unserved work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Change, Fact
from homing.domain.errors import StoreUnavailable
from homing.domain.failure import Failure
from homing.domain.policy import Retention
from homing.engine.process import engine as engine_module
from homing.engine.process.housekeeping import FORGET_SILENT_AFTER_S
from homing.engine.process.liveness import BEATS_PER_PATIENCE, PATIENCE_S, WORKER
from homing.ports import Alert, Answers, Batch, Claim, Cursor, Page, Query
from homing.stores.memory import MemoryStore
from tests.unit.engine.world import Bell, PaperJournal, Script, World, quiet, route, saved

HARD = Failure("gone", "reject")
FAULT = Failure("auth_failed", "route_fault", detail="bad credentials")
DAY_S = 24 * 3600.0


def ringing(*answers: Failure, **fields: object) -> tuple[World, Bell]:
    bell = Bell()
    world = World(
        route(step=Script(*answers), **fields),  # type: ignore[arg-type] # fields by name
        notifiers=(bell,),
        alarm=bell,
    )
    return world, bell


async def test_i20_a_dead_letter_is_told_once_and_then_owes_nothing() -> None:
    world, bell = ringing(HARD)
    letter = await world.submit()

    await world.run()
    await world.engine.give_notices()

    assert bell.notified == [("alert", letter.id)]
    assert (await world.get(letter.id)).notices_due == ()


async def test_p10_a_notice_that_was_not_taken_is_given_again() -> None:
    world, bell = ringing(HARD)
    bell.deaf = True
    letter = await world.submit()
    await world.run()
    assert (await world.get(letter.id)).notices_due == ("alert",)

    bell.deaf = False
    assert await world.engine.give_notices() == 1

    assert bell.notified == [("alert", letter.id)] * 2
    assert (await world.get(letter.id)).notices_due == ()


async def test_a_notice_that_nobody_takes_stays_owed() -> None:
    world, bell = ringing(HARD, rules={"notify_on_failed": ("fax",)})
    letter = await world.submit()

    await world.run()

    assert (await world.get(letter.id)).notices_due == ("fax",)
    assert bell.notified == []


async def test_one_under_way_is_asked_for_again_later() -> None:
    world, bell = ringing(HARD)
    bell.deaf = True
    letter = await world.submit()
    await world.run()
    await world.engine.ops.replay(letter.id, actor="ann", reason="fixed")
    await world.crash_of_another(letter.id)
    bell.notified.clear()

    assert await world.engine.give_notices() == 0
    assert bell.notified == []


async def test_many_that_owe_are_all_told() -> None:
    world, bell = ringing(*[HARD] * 450)
    for number in range(450):
        await world.submit(str(number))

    await world.run()

    assert len(set(bell.notified)) == len(bell.notified) == 450


async def test_a_delivery_that_is_not_kept_goes_once_its_line_is_written() -> None:
    rules = {"keep_delivered": False, "notify_on_delivered": ("log",)}
    world, bell = ringing(rules=rules)
    bell.deaf = True
    accepted = await world.submit()
    await world.run()
    assert (await world.get(accepted.id)).state == "delivered"

    bell.deaf = False
    await world.engine.give_notices()

    assert await world.store.get(accepted.id) is None


async def test_i19_a_paused_route_is_told_once() -> None:
    world, bell = ringing(FAULT)
    await world.submit()
    worker = world.engine.workers["event"]
    await world.engine.runner.run(await worker._claim(1), wait=True)

    for _ in range(3):
        await world.engine.give_notices()
        await world.engine.pausing.refresh()

    [alert] = bell.alerts
    assert (alert.kind, alert.key) == ("route_paused", "event")
    assert "bad credentials" in alert.text


async def test_p8_what_the_journal_kept_is_stored_at_the_next_start() -> None:
    journal = PaperJournal()
    world = World(route(), journal=journal)
    change = await finished_send(world)
    await journal.append([change])

    await world.engine.recover()

    assert (await world.get(change.delivery.id)).state == "delivered"
    assert journal.kept == []


async def test_p8_an_outcome_whose_claim_was_lost_meanwhile_is_kept_as_evidence() -> None:
    journal = PaperJournal()
    world = World(route(), journal=journal)
    change = await finished_send(world)
    await journal.append([change])
    await world.crash_of_another(change.delivery.id)

    await world.engine.recover()

    [fact] = await world.store.facts("late_outcome", f"{change.delivery.id}/")
    assert (fact.value or {})["status"] == "done"
    assert (await world.get(change.delivery.id)).state == "in_flight"
    assert journal.kept == []


async def finished_send(world: World) -> Change:
    """An outcome that the store did not take."""
    accepted = await world.submit()
    await world.crash_of_another(accepted.id)
    return transitions.succeed(
        await world.get(accepted.id), plan=world.route.plan, now_ms=world.now_ms, roll=0.0
    )


async def test_i14_the_lease_of_a_dead_process_ends_even_if_the_clock_was_wrong() -> None:
    dead = World(route(), name="dead")
    accepted = await dead.submit()
    await dead.engine.liveness.beat()
    dead.clock.jump(DAY_S)
    [_] = await dead.engine.workers["event"]._claim(1)
    dead.clock.jump(-DAY_S)

    heir = World(route(), store=dead.store, clock=dead.clock, name="heir")
    await heir.engine.housekeeping.look_around()
    assert await heir.run() == 0, "it is still held for alive"
    await outwait(heir)
    await heir.engine.housekeeping.look_around()
    await heir.run()

    assert (await heir.get(accepted.id)).state == "delivered"


async def outwait(world: World) -> None:
    """So much time that a silent process is dead; this one beats meanwhile."""
    for _ in range(BEATS_PER_PATIENCE):
        await world.engine.liveness.beat()
        world.clock.advance(PATIENCE_S / BEATS_PER_PATIENCE)


async def test_who_only_watches_takes_nothing_from_the_silent() -> None:
    """It cannot tell their silence from a pause of its own."""
    silent = World(route(), name="silent")
    accepted = await silent.submit()
    await silent.engine.liveness.beat()
    [_] = await silent.engine.workers["event"]._claim(1)
    watcher = World(route(), store=silent.store, clock=silent.clock, name="watcher")

    watcher.clock.advance(PATIENCE_S)
    await watcher.engine.housekeeping.look_around()

    assert (await watcher.get(accepted.id)).holder == "silent"


async def test_who_beats_again_before_its_leases_are_ended_keeps_them() -> None:
    class Reading(MemoryStore):
        async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
            if query.holder == "silent":
                await silent.engine.liveness.beat()
            return await super().page(query, cursor, limit)

    silent = World(route(), store=Reading(), name="silent")
    accepted = await silent.submit()
    await silent.engine.liveness.beat()
    [_] = await silent.engine.workers["event"]._claim(1)
    heir = World(route(), store=silent.store, clock=silent.clock, name="heir")
    await outwait(heir)

    await heir.engine.housekeeping.look_around()

    assert (await heir.get(accepted.id)).holder == "silent"


async def test_all_that_a_dead_process_held_is_due_again_the_oldest_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """More than a page of it; one line in the log says so."""
    store = WritingStore()
    dead = World(route(concurrency=1000), store=store, name="dead")
    accepted = []
    for _ in range(450):
        accepted.append(await dead.submit())
        dead.clock.advance(1)
    await dead.engine.liveness.beat()
    assert len(await dead.engine.workers["event"]._claim(450)) == 450

    heir = World(route(), store=store, clock=dead.clock, name="heir")
    await outwait(heir)
    store.written.clear()
    await heir.engine.housekeeping.look_around()

    assert store.written == [delivery.id for delivery in accepted]
    assert await store.next_due_ms(("event",)) == 0
    assert "leases_of_dead_ended holder=dead deliveries=450" in caplog.messages


class WritingStore(MemoryStore):
    """Remembers which deliveries were written, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    async def commit(self, batch: Batch) -> Answers:
        self.written += [delivery.id for delivery in saved(batch)]
        return await super().commit(batch)


async def test_a_process_long_silent_is_forgotten() -> None:
    world = World(route())
    await world.store.save([], [Fact("worker", "old", world.now_ms, {"beats": 1, "boot": "x"})])
    await world.engine.liveness.beat()

    for _ in range(2):
        await world.engine.housekeeping.look_around()
        await world.engine.housekeeping.purge()
        assert len(await world.store.facts("worker")) == 2
        await outwait(world)
    await world.engine.housekeeping.look_around()
    world.clock.advance(FORGET_SILENT_AFTER_S)
    await world.engine.housekeeping.purge()

    assert [fact.key for fact in await world.store.facts("worker")] == ["w1"]


async def test_what_was_given_back_while_it_was_silent_is_not_looked_for_again() -> None:
    """Silent ones that hold nothing cost nothing more, however many they are."""
    store = PagingStore()
    world = World(route(), store=store)
    await store.save([], [Fact("worker", "old", world.now_ms, {"beats": 1, "boot": "x"})])
    await world.engine.housekeeping.look_around()
    await outwait(world)
    await world.engine.housekeeping.look_around()
    assert store.asked
    store.asked.clear()

    await world.engine.housekeeping.look_around()

    assert store.asked == []


class PagingStore(MemoryStore):
    """Remembers which pages were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Query] = []

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        self.asked.append(query)
        return await super().page(query, cursor, limit)


async def test_a_claim_whose_answer_was_lost_is_given_back_on_the_second_look() -> None:
    world = World(route())
    accepted = await world.submit()
    await world.engine.workers["event"]._process.store.claim(claim_of(world))

    looks = [await world.engine.housekeeping.give_back_unknown("w1", frozenset) for _ in range(2)]

    assert looks == [0, 1]
    await world.run(after_s=1)
    assert (await world.get(accepted.id)).state == "delivered"


async def test_what_is_in_hand_is_not_given_back() -> None:
    world = World(route())
    accepted = await world.submit()
    await world.store.claim(claim_of(world))

    for _ in range(3):
        held = frozenset({accepted.id})
        assert await world.engine.housekeeping.give_back_unknown("w1", held.copy) == 0


def claim_of(world: World) -> Claim:
    return Claim(
        worker="w1",
        now_ms=world.now_ms,
        lease_until_ms=world.now_ms + 10**6,
        limit=1,
        queues=("event",),
    )


@pytest.mark.parametrize(
    ("answer", "verb", "kept_s"),
    [(None, None, "delivered_s"), (HARD, "dismiss", "dismissed_s")],
    ids=["delivered", "dismissed"],
)
async def test_what_has_ended_goes_after_its_time(
    answer: Failure | None, verb: str | None, kept_s: str
) -> None:
    rules = {"retention": Retention(**{kept_s: 3600.0})}
    world = World(route(step=Script(*([answer] if answer else [])), rules=rules))
    accepted = await world.submit()
    await world.run()
    if verb:
        await world.engine.ops.dismiss(accepted.id, actor="ann", reason="old")

    world.clock.advance(3600 - 1)
    await world.engine.housekeeping.purge()
    assert await world.store.get(accepted.id) is not None
    world.clock.advance(2)
    await world.engine.housekeeping.purge()

    assert await world.store.get(accepted.id) is None


@pytest.mark.parametrize(
    ("day", "kept"),
    [
        (6, {"delivered", "its content", "its key", "failed", "content of the failed", "attempts"}),
        (8, {"delivered", "failed", "content of the failed", "attempts"}),
        (29, {"delivered", "failed", "content of the failed", "attempts"}),
        (31, {"failed", "content of the failed", "attempts"}),
        (89, {"failed", "content of the failed", "attempts"}),
        (91, set()),
    ],
)
async def test_by_default_each_class_of_record_is_kept_for_some_days(
    day: int, kept: set[str]
) -> None:
    world = World(route(step=Script(HARD)))
    dead = await world.submit("dead")
    await world.run()
    done = await world.submit("done")
    await world.run()

    world.clock.advance(day * DAY_S)
    await world.engine.housekeeping.purge()

    contents = [await world.store.content(each.id) for each in (done, dead)]
    found = {
        "delivered": await world.store.get(done.id),
        "its content": contents[0] and contents[0].payload,
        "its key": world.store.disk.keys.get((done.source, "done")),
        "failed": await world.store.get(dead.id),
        "content of the failed": contents[1] and contents[1].payload,
        "attempts": await world.store.attempts(dead.id),
    }
    assert {name for name, value in found.items() if value} == kept


async def test_i5_open_ones_and_dead_letters_stay_whatever_their_age() -> None:
    kept = replace(Retention.forever(), delivered_s=1.0, dismissed_s=1.0, payload_s=1.0)
    world = World(route(step=Script(HARD), rules={"retention": kept}))
    dead = await world.submit("dead")
    await world.run()
    waiting = await world.submit("waiting")

    world.clock.advance(365 * DAY_S)
    await world.engine.housekeeping.purge()

    assert (await world.get(dead.id)).state == "failed"
    assert (await world.get(waiting.id)).state == "pending"
    content = await world.store.content(dead.id)
    assert content is not None
    assert content.payload


async def test_more_than_one_batch_is_purged_at_once() -> None:
    world = World(route(rules={"retention": Retention(delivered_s=1.0, key_s=1.0)}))
    for number in range(2100):
        await world.submit(str(number))
    await world.run()

    world.clock.advance(2)
    await world.engine.housekeeping.purge()

    assert (await world.store.count(Query()))[()] == 0
    assert world.store.disk.keys == {}


async def test_old_notes_are_purged_and_audits_stay() -> None:
    world = World(route(step=Script(HARD)))
    letter = await world.submit()
    await world.run()
    await world.engine.ops.annotate(letter.id, actor="ann", note="asked them")
    await world.store.save([], [Fact("late_outcome", "x/1", world.now_ms)])

    world.clock.advance(365 * DAY_S)
    await world.engine.housekeeping.purge()

    assert await world.store.facts("late_outcome") == []
    assert len(await world.engine.ops.audit(letter.id)) == 1


async def test_work_that_no_worker_serves_raises_one_alert_at_the_second_look() -> None:
    world, bell = ringing()
    accepted = await world.submit()
    world.store.disk.put(replace(await world.get(accepted.id), queue="event/unknown"))

    assert await world.engine.alerts.alert_unserved() == {"event/unknown"}
    assert bell.alerts == [], "its worker may just be restarting"
    for _ in range(3):
        assert await world.engine.alerts.alert_unserved() == {"event/unknown"}

    [alert] = bell.alerts
    assert (alert.kind, alert.key) == ("unserved", "event/unknown")
    assert alert.text == "no live worker serves event/unknown: 1 waiting"


async def test_an_alert_that_was_not_taken_is_raised_again() -> None:
    world, bell = ringing(concurrency=0)
    await world.submit()
    bell.deaf = True
    for _ in range(2):
        await world.engine.alerts.alert_unserved()
    bell.deaf = False

    for _ in range(3):
        await world.engine.alerts.alert_unserved()

    assert len(bell.alerts) == 2


async def test_what_another_live_process_serves_is_served() -> None:
    store = MemoryStore()
    mail = World(route(name="mail"), store=store, name="mailer")
    await mail.submit()
    bell = Bell()
    events = World(route(), store=store, clock=mail.clock, alarm=bell)
    await mail.engine.start()
    await events.engine.housekeeping.look_around()

    assert await events.engine.alerts.alert_unserved() == frozenset()
    await mail.engine.stop()
    await mail.submit()
    await events.engine.housekeeping.look_around()
    for _ in range(2):
        assert await events.engine.alerts.alert_unserved() == {"mail"}
    assert [alert.key for alert in bell.alerts] == ["mail"]


async def test_a_process_that_only_knows_a_route_does_not_serve_it() -> None:
    store = MemoryStore()
    mail = World(route(name="mail"), store=store, name="mailer")
    await mail.submit()
    events = World(route(), store=store, clock=mail.clock, known=[route(name="mail")])
    await events.engine.start()

    assert await events.engine.alerts.alert_unserved() == {"mail"}
    await events.engine.stop()


async def test_two_workers_raise_one_alert_of_unserved_work() -> None:
    store, bells = MemoryStore(), [Bell(), Bell()]
    first = World(route(), store=store, name="w1", alarm=bells[0])
    second = World(route(), store=store, clock=first.clock, name="w2", alarm=bells[1])
    third = World(route(), store=store, clock=first.clock, name="w0")
    accepted = await first.submit()
    store.disk.put(replace(await first.get(accepted.id), queue="event/unknown"))
    worlds = (first, second, third)
    for world in worlds:
        await world.engine.liveness.beat()

    for _ in range(3):
        for world in worlds:
            await world.engine.liveness.look()
            await world.engine.alerts.alert_unserved()

    assert [[alert.key for alert in bell.alerts] for bell in bells] == [["event/unknown"], []]
    await first.engine.liveness.withdraw()
    for _ in range(3):
        await second.engine.liveness.look()
        await second.engine.alerts.alert_unserved()
    assert bells[1].alerts == [], "it was told before, by another process"


async def test_what_the_last_worker_held_when_it_died_waits_too() -> None:
    dead = World(route(), name="dead")
    await dead.submit()
    dead.engine.liveness.queues = ("event",)
    await dead.engine.liveness.beat()
    [_] = await dead.engine.workers["event"]._claim(1)
    watcher = World(route(concurrency=0), store=dead.store, clock=dead.clock, name="watcher")

    await watcher.engine.housekeeping.look_around()
    assert await watcher.engine.alerts.alert_unserved() == frozenset()
    watcher.clock.advance(PATIENCE_S)
    await watcher.engine.housekeeping.look_around()

    assert await watcher.engine.alerts.alert_unserved() == {"event"}


async def test_an_inline_attempt_of_a_live_process_does_not_wait() -> None:
    sender = World(route(), name="sender")
    await sender.submit()
    await sender.engine.liveness.beat()
    [_] = await sender.engine.workers["event"]._claim(1)
    watcher = World(route(concurrency=0), store=sender.store, clock=sender.clock, name="watcher")

    await watcher.engine.housekeeping.look_around()

    assert await watcher.engine.alerts.alert_unserved() == frozenset()


async def test_what_a_person_resumes_in_another_process_goes_on_here() -> None:
    world = World(route(poll_s=3600.0))
    other = World(route(), store=world.store, clock=world.clock, name="other")
    await other.engine.pausing.pause("event", actor="ann", reason="migration")
    await world.submit()
    await world.engine.start()
    await quiet()
    assert world.names == []

    await other.engine.pausing.resume("event")

    await world.until_told("succeed")
    await world.engine.stop()


async def test_a_process_that_works_nothing_off_raises_alerts_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "LOOK_FOR_UNSERVED_EVERY_S", 0.001)
    bell = LoudBell()
    world = World(route(), alarm=bell)
    await world.submit()

    await world.engine.watch()
    async with asyncio.timeout(5):
        await bell.sounded.wait()
    await world.engine.stop()

    assert [(alert.kind, alert.key) for alert in bell.alerts] == [("unserved", "event")]
    assert await world.store.facts("worker") == [], "it is no worker"


class LoudBell(Bell):
    def __init__(self) -> None:
        super().__init__()
        self.sounded = asyncio.Event()

    async def sound(self, alert: Alert) -> bool:
        self.sounded.set()
        return await super().sound(alert)


async def test_a_beat_names_only_queues_that_are_worked_off_here() -> None:
    routes = route(), route(name="mail", concurrency=0)
    working, sending = World(*routes), World(*routes, name="sender")

    await working.engine.start()
    await sending.engine.ensure_beating()
    [[own], [none]] = [await w.store.facts("worker") for w in (working, sending)]
    for world in (working, sending):
        await world.engine.stop()

    assert (own.value or {})["queues"] == "event"
    assert (none.value or {})["queues"] == ""


async def test_a_recovery_that_failed_half_way_is_repeated_before_the_next_inline_send() -> None:
    class Refusing(MemoryStore):
        refuses = True

        async def facts(self, kind: str, *words: Any, **fields: Any) -> list[Fact]:
            if self.refuses and kind == WORKER:
                raise StoreUnavailable("locked")
            return await super().facts(kind, *words, **fields)

    store = Refusing()
    world = World(route(), store=store)
    with pytest.raises(StoreUnavailable):
        await world.engine.ensure_beating()

    store.refuses = False
    await world.engine.ensure_beating()

    assert {"heartbeats", "leases"} <= {task.get_name() for task in asyncio.all_tasks()}
    await world.engine.stop(grace_s=0.0)
