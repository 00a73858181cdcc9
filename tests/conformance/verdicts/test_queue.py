"""The queue file and the files beside it, by the lines that another program reads."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import random
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from homing.domain.delivery import Fact
from homing.domain.errors import StoreLocked
from homing.ports import Notice
from homing.stores.jsonl import JsonlStore
from homing.stores.jsonl.locking import LOCK_WITHIN_S
from homing.stores.memory import MemoryStore
from homing.testing.clocks import ManualClock
from homing_systems.verdicts import graph_answers, route
from homing_systems.verdicts.delivery_log import DeliveryLog
from homing_systems.verdicts.notices import NoticeWriters
from homing_systems.verdicts.record import FIELDS
from tests.conformance.verdicts.office import DAY_S, Office, completed
from tests.conformance.world import START_MS
from tests.unit.observers.test_alert_log import shim

WORDS = {"PENDING", "RETRYING", "DELIVERED", "DEAD"}
EDGES = {
    ("PENDING", "PENDING"),
    ("PENDING", "RETRYING"),
    ("PENDING", "DELIVERED"),
    ("PENDING", "DEAD"),
    ("RETRYING", "RETRYING"),
    ("RETRYING", "DELIVERED"),
    ("RETRYING", "DEAD"),
    # The mark that a notice was given.
    ("DELIVERED", "DELIVERED"),
    ("DEAD", "DEAD"),
}


def of_session(office: Office, session_id: str = "cs_1") -> list[dict[str, Any]]:
    return [line for line in office.lines() if line["session_id"] == session_id]


async def test_a_life_in_lines(tmp_path: Path, clock: ManualClock) -> None:
    """O-008, O-044, O-018"""
    async with Office(tmp_path, clock, "503", "502", "504", "202").open() as office:
        await office.post()
        await office.work_for(DAY_S)

    lines = office.lines()
    assert all(tuple(line) == FIELDS for line in lines)
    first = lines[0]
    assert (first["status"], first["attempt_count"], first["last_attempt_at"]) == (
        "PENDING",
        0,
        None,
    )
    words = [line["status"] for line in lines]
    assert set(pairwise(words)) <= EDGES
    assert words[-1] == "DELIVERED"
    codes = [line["last_error_code"] for line in lines]
    assert list(dict.fromkeys(codes)) == [None, 503, 502, 504]
    assert [line["attempt_count"] for line in lines] == sorted(
        line["attempt_count"] for line in lines
    )


async def test_lines_are_only_ever_appended(tmp_path: Path, clock: ManualClock) -> None:
    """O-043, O-075, O-077: over a week."""
    queue, seen = tmp_path / "queue.jsonl", b""
    async with Office(tmp_path, clock, "503", "503", "400", "503", "503").open() as office:
        for number in range(4):
            await office.post(session_id=f"cs_{number}")
            data = queue.read_bytes()
            assert data.startswith(seen)
            seen = data
        for _ in range(7):
            await office.work_for(DAY_S)
            await office.homing.engine.housekeeping.purge()
            data = queue.read_bytes()
            assert hashlib.sha256(data[: len(seen)]).digest() == hashlib.sha256(seen).digest()
            seen = data

    assert {line["session_id"] for line in office.lines()} == {f"cs_{n}" for n in range(4)}


async def test_every_path_in_a_random_run_is_allowed(tmp_path: Path, clock: ManualClock) -> None:
    """O-017, O-044, O-074: and each end has its lines, once."""
    chance = random.Random(7)
    answers = ["202", "400", "403", "429", "500", "503", "maybe", "timeout", "cut"]
    script = chance.choices(answers, k=300)
    async with Office(tmp_path, clock, *script).open() as office:
        for number in range(60):
            await office.post(session_id=f"cs_{number}")
        await office.work_for(2 * DAY_S)

    ends: dict[str, set[str]] = {"DELIVERED": set(), "DEAD": set()}
    for number in range(60):
        words = [line["status"] for line in of_session(office, f"cs_{number}")]
        assert set(words) <= WORDS
        assert set(pairwise(words)) <= EDGES
        ends[words[-1]].add(f"cs_{number}")
    assert min(len(ended) for ended in ends.values()) > 5
    assert sorted(letter["session_id"] for letter in office.dead_letters()) == sorted(ends["DEAD"])
    told = [line.split()[3].partition("=")[2] for line in office.alerts()]
    assert sorted(told) == sorted(ends["DEAD"])
    logged = [line.split()[2].partition("=")[2] for line in office.deliveries()]
    assert sorted(logged) == sorted(ends["DELIVERED"])


async def test_the_steps_of_the_ladder_are_exact(tmp_path: Path, clock: ManualClock) -> None:
    """O-054, O-055, O-056"""
    async with Office(tmp_path, clock, *["503"] * 5).open() as office:
        await office.post()
        await office.work_for(DAY_S)

    waits_s: dict[int, float] = {}
    for line in office.lines():
        if line["status"] == "RETRYING" and line["last_error_code"] == 503:
            due = datetime.fromisoformat(line["next_attempt_at"])
            failed = datetime.fromisoformat(line["last_attempt_at"])
            waits_s[line["attempt_count"]] = max(
                waits_s.get(line["attempt_count"], 0), (due - failed).total_seconds()
            )
    assert [waits_s[count] for count in (1, 2, 3)] == [300, 1800, 7200]
    assert office.graph.called_at_s == [0, 0, 300, 2100, 9300]


async def test_no_fifth_retry_is_ever_made(tmp_path: Path, clock: ManualClock) -> None:
    """O-088, O-045, O-048"""
    async with Office(tmp_path, clock, *["503"] * 9).open() as office:
        await office.post()
        await office.work_for(2 * DAY_S)
        await office.work_for(2 * DAY_S)

    assert len(office.graph.calls) == 5
    [letter] = office.dead_letters()
    assert {name: letter[name] for name in FIELDS} == office.lines()[-1]
    assert (letter["status"], letter["attempt_count"]) == ("DEAD", 4)
    assert office.alerts()[0].endswith("attempts=4 last_error=503")


@contextmanager
def local_time(zone: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "now"),
    [
        ("Asia/Kathmandu", "2026-02-23T10:00:00Z"),
        # Within the five minutes of the first retry the clocks on the wall go on, and back.
        ("America/Toronto", "2026-03-08T06:58:00Z"),
        ("Europe/Berlin", "2026-10-25T00:58:00Z"),
    ],
)
async def test_times_are_utc_whatever_the_zone(tmp_path: Path, zone: str, now: str) -> None:
    """O-015, O-122"""
    start = datetime.fromisoformat(now)
    with local_time(zone):
        clock = ManualClock(round(start.timestamp() * 1000))
        async with Office(tmp_path, clock, *["503"] * 5).open() as office:
            await office.post()
            await office.work_for(DAY_S)

    for line in office.lines():
        for name in ("created_at", "last_attempt_at", "next_attempt_at"):
            assert line[name] is None or line[name].endswith("Z")
    tried_at = {datetime.fromisoformat(line["last_attempt_at"] or now) for line in office.lines()}
    after_s = sorted({round((each - start).total_seconds()) for each in tried_at})
    assert after_s == [0, 300, 2100, 9300]


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
async def test_a_step_of_the_clock_breaks_no_rule(
    tmp_path: Path, clock: ManualClock, step_s: float
) -> None:
    """O-123, O-124"""
    async with Office(tmp_path, clock, *["503"] * 10).open() as office:
        await office.post()
        clock.jump(step_s)
        await office.post(session_id="cs_2")
        await office.work_for(2 * DAY_S)

    for line in office.lines():
        assert line["next_attempt_at"] > line["created_at"]
    for session_id in ("cs_1", "cs_2"):
        assert of_session(office, session_id)[-1]["status"] == "DEAD"
        assert of_session(office, session_id)[-1]["attempt_count"] == 4
    assert len(office.graph.calls) == 10


async def test_a_line_of_another_program_is_taken_over(tmp_path: Path, clock: ManualClock) -> None:
    """O-076, O-008, O-060: its last line counts."""
    (tmp_path / "a").mkdir()
    async with Office(tmp_path / "a", clock, "503", "503").open() as other:
        await other.post()
    lines = [
        line.partition(',"_homing"')[0] + "}"
        for line in (tmp_path / "a/queue.jsonl").read_text().split("\n")[:-1]
    ]
    folder = tmp_path / "b"
    folder.mkdir()
    text = lines[-1].replace('"query":"', '"query":"_homing ')
    lines = [*lines[:-1], text, '{"retry_id":"?"}']
    (folder / "queue.jsonl").write_text("\n".join([*lines, ""]))

    async with Office(folder, clock).open() as office:
        again = await office.post()
        await office.work_for(DAY_S)

    assert again.json() == {"outcome": "queued", "retry_id": other.lines()[0]["retry_id"]}
    assert office.graph.called_at_s == [300.0]
    assert office.deliveries()[0].endswith("attempt=2")
    alert = office.alerts()[0]
    size = sum(len(line.encode()) + 1 for line in lines)
    assert "a line of another program cannot be read: " in alert
    assert alert.endswith(f"(it ends at byte {size - 1})")


@pytest.mark.parametrize("tail", [b'{"retry_id": "torn', b"\x00\x00\x00", b'{"status":"LOST"}x'])
async def test_a_torn_end_is_put_aside_and_told(
    tmp_path: Path, clock: ManualClock, tail: bytes
) -> None:
    """O-105"""
    async with Office(tmp_path, clock, "503", "503").open() as office:
        first = await office.post()
    with (tmp_path / "queue.jsonl").open("ab") as queue:
        queue.write(tail)

    async with Office(tmp_path, clock).open() as office:
        again = await office.post()
        await office.homing.engine.alerts.alert_noticed()
        await office.work_for(DAY_S)

    assert again.json() == first.json()
    assert office.deliveries()
    assert any("QUARANTINED" in line for line in office.alerts())


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Another program has the lock."""
    with path.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def test_nothing_is_written_without_the_lock(tmp_path: Path, clock: ManualClock) -> None:
    """O-100, O-101, O-102"""
    assert LOCK_WITHIN_S == 5
    store = JsonlStore(tmp_path / "queue.jsonl", lock_within_s=0.05)
    async with Office(tmp_path, clock, store=store).open() as office:
        await office.post()
        before = (tmp_path / "queue.jsonl").read_bytes()
        with held(tmp_path / "queue.jsonl.lock"):
            refused = await office.post(session_id="cs_2")
            assert (tmp_path / "queue.jsonl").read_bytes() == before
        repeated = await office.post(session_id="cs_2")

    assert refused.status_code == 503
    assert "LOCK TIMEOUT: session_id=cs_2" in office.alerts()[0]
    assert repeated.json() == {"outcome": "sent"}
    assert len(office.graph.accepted) == 2


@pytest.mark.parametrize("way", ["post", "webhook", "report"])
async def test_a_lock_that_is_not_had_to_read_is_alerted_too(
    tmp_path: Path, clock: ManualClock, way: str
) -> None:
    """O-101, O-104: another process has written, so that this one must read first."""
    store = JsonlStore(tmp_path / "queue.jsonl", lock_within_s=0.05)
    async with Office(tmp_path, clock, store=store).open() as office:
        await office.post("[]")  # refused, but now it is known that there are no API tokens
        async with Office(tmp_path, clock).open() as other:
            await other.post()
        office.app.access_check._look_at_s = 0.0  # it is time to look again
        with held(tmp_path / "queue.jsonl.lock"):
            if way == "webhook":
                refused = await office.tell(completed(id="cs_2"))
            else:
                words = {"retry_id": str(uuid.uuid4())} if way == "report" else {}
                refused = await office.post(session_id="cs_2", **words)

    assert refused.status_code == 503
    assert ["LOCK TIMEOUT: session_id=cs_2" in line for line in office.alerts()] == [True]
    assert office.graph.calls == []


async def test_what_was_sent_is_recorded_however_long_the_lock_is_held(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-101: only intake gives up; a finished send that was not recorded would be repeated."""
    store = JsonlStore(tmp_path / "queue.jsonl", lock_within_s=0.01)
    with ExitStack() as others:
        async with Office(tmp_path, clock, store=store).open() as office:

            async def lock(_: object) -> None:
                others.enter_context(held(tmp_path / "queue.jsonl.lock"))

            office.graph.watch = lock
            posted = asyncio.create_task(office.post())
            refusals = 0
            while refusals < 5:
                try:
                    await store.save([], [Fact("test", "any", 0, {"n": refusals})])
                except StoreLocked:
                    refusals += 1
            assert not posted.done()
            others.close()
            answer = await posted

    assert answer.json() == {"outcome": "sent"}
    assert len(office.graph.calls) == len(office.deliveries()) == 1
    assert office.lines()[-1]["status"] == "DELIVERED"


async def test_both_guards_are_looked_at_under_the_lock(tmp_path: Path, clock: ManualClock) -> None:
    """O-103, O-113, O-114: the queue's lock first, then the delivery log is read."""
    log, seen = tmp_path / "delivery.log", []
    async with Office(tmp_path, clock, "503", "503").open() as office:
        await office.post()
        asked: Any = office.homing.store
        inner = asked._accepted

        class Watched:
            def receipt_of(self, delivery: Any) -> Any:
                with (tmp_path / "queue.jsonl.lock").open("ab") as lock:
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        seen.append(threading.current_thread().name)
                return inner.receipt_of(delivery)

        asked._accepted = Watched()
        log.write_text("2026-01-01T00:00:00Z DELIVERED session=cs_1 to=a@b tier=full attempt=9\n")
        await office.work_for(DAY_S)

    assert seen
    assert len(office.graph.calls) == 2
    assert office.lines()[-1]["status"] == "DELIVERED"
    assert len(office.deliveries()) == 1
    architecture = Path(__file__).parents[3] / "ARCHITECTURE.md"
    assert "## Lock order" in architecture.read_text()


async def test_two_processes_share_one_queue(tmp_path: Path, clock: ManualClock) -> None:
    """O-100, O-061: every line can be read, and no session is sent twice."""
    async with Office(tmp_path, clock).open() as one, Office(tmp_path, clock).open() as two:
        posts = [
            office.post(session_id=f"cs_{number}") for number in range(40) for office in (one, two)
        ]
        await asyncio.gather(*posts)
        sent = [*one.graph.accepted, *two.graph.accepted]

    assert len(sent) == 40
    assert len({line["session_id"] for line in one.lines()}) == 40
    assert len(one.deliveries()) == 40


async def test_without_a_dead_letter_file_the_alert_is_still_written(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-110, O-112, O-074: the letter follows when the file can be written, once."""
    (tmp_path / "dead.jsonl").mkdir()
    async with Office(tmp_path, clock, "400").open() as office:
        answer = await office.post()
        assert len(office.alerts()) == 1
        (tmp_path / "dead.jsonl").rmdir()
        await office.homing.engine.give_notices()
        await office.homing.engine.give_notices()

    assert answer.json()["outcome"] == "dead"
    assert [letter["session_id"] for letter in office.dead_letters()] == ["cs_1"]
    assert len(office.alerts()) == 1
    assert office.lines()[-1]["status"] == "DEAD"


async def test_the_last_resort_is_the_system_journal(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-111, O-130"""
    journal = shim(tmp_path, monkeypatch, 'printf "%s\\n" "$*" >> "$JOURNAL"')
    (tmp_path / "dead.jsonl").mkdir()
    (tmp_path / "ALERT.log").mkdir()
    async with Office(tmp_path, clock, "400").open() as office:
        await office.post()

    assert "[ALERT][oracle-email-retry] DEAD LETTER: session_id=cs_1" in journal.read_text()


async def test_a_crash_between_two_notices_completes_them(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-074, O-073, O-050"""
    async with Office(tmp_path, clock, "400", "202").open() as office:

        async def die() -> None:
            """The process ends before any line is written."""

        with monkeypatch.context() as patch:
            for notices in office.homing.engine.notices:
                patch.setattr(notices, "give_noted", die)
            await office.post()
            await office.post(session_id="cs_2")
        alert = next(each for each in office.homing.engine.notices if each.kind == "alert")
        await alert.give_all()
        assert office.dead_letters() == []

    async with Office(tmp_path, clock).open() as office:
        await office.work()
        await office.work()

    assert len(office.dead_letters()) == len(office.alerts()) == len(office.deliveries()) == 1


def switch_off(mechanism: str, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Settings of an office in which it is missing."""
    if mechanism == "queue":
        return {"store": MemoryStore()}
    if mechanism == "schedule":
        patch.setattr(route, "LADDER_S", (0.001,))
    if mechanism == "guards":
        patch.setattr(DeliveryLog, "holds", lambda *_: False)
    if mechanism == "dead letter":
        patch.setattr(NoticeWriters, "write_dead_letters", _done)
    if mechanism == "error table":
        patch.setitem(graph_answers.GRAPH_ANSWERS, 400, "retry")
    return {}


async def _done(_: object, group: Sequence[Notice]) -> Sequence[bool]:
    return [True] * len(group)


MECHANISMS = ("queue", "schedule", "guards", "dead letter", "error table")


@pytest.mark.parametrize("missing", ["", *MECHANISMS])
async def test_the_five_mechanisms_are_there(
    tmp_path: Path, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-002: each of them shows, because what shows it fails where it is switched off."""
    settings, clock = switch_off(missing, monkeypatch), ManualClock(START_MS)
    log = tmp_path / "delivery.log"
    log.write_text("2026-01-01T00:00:00Z DELIVERED session=cs_old to=a@b tier=full attempt=9\n")
    async with Office(tmp_path, clock, "400", "503", "503", "503", **settings).open() as office:
        for session_id in ("cs_old", "cs_abort", "cs_late"):
            await office.post(session_id=session_id)
        await office.work_for(DAY_S)

    shown = {
        "queue": (tmp_path / "queue.jsonl").exists(),
        "schedule": office.graph.called_at_s[-1] == 2100,
        "guards": len(office.deliveries()) == 2 and len(office.graph.calls) == 5,
        "dead letter": len(office.dead_letters()) == 1,
        "error table": any("attempts=0 last_error=400" in line for line in office.alerts()),
    }
    assert shown[missing] is False if missing else all(shown.values())
