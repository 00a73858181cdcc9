"""Plain new deliveries are added by one statement, and it stores what adding one by one stores."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from homing.domain.delivery import New, Recipient
from homing.domain.errors import StoreOutcomeUnknown
from homing.domain.writes import write_of_new
from homing.ports import Added, Existing
from homing.stores.sql.sqlite import adding_new, committing
from homing.stores.sql.sqlite.adding import AddRequest, add_all, new_entry
from homing.stores.sql.sqlite.claiming import RenewRequest, renew_all
from homing.stores.sql.sqlite.committing import Committer, Job
from homing.stores.sql.sqlite.connection import connect_to_write
from homing.stores.sql.sqlite.high_water import SUFFIX, HighWater
from homing.stores.sql.sqlite.session import Session
from homing.stores.sql.sqlite.writer import QUICK_COMMIT_S, number_in_turn
from homing.testing import samples
from tests.unit.stores.new_deliveries import some_new

TABLES = ("deliveries", "records", "contents", "results", "recipients", "keys", "counts", "facts")


def requested(new: list[New]) -> AddRequest:
    return AddRequest([new_entry(write_of_new(one)) for one in new], ())


def job(new: list[New]) -> Job:
    """Nobody waits for the answer."""
    return Job(add_all, requested(new), len(new), cast("asyncio.Future[Any]", None))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect_to_write(tmp_path / "outbox.db", 1.0)) as connection:
        yield connection


@pytest.fixture
def committer(
    tmp_path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> Committer:
    # Otherwise one commit a second counts up the pulse, too, and needs a transaction.
    monkeypatch.setattr(HighWater, "is_due", False)
    path = tmp_path / "outbox.db"
    return Committer(database, path, 1.0, HighWater(path, database), lambda: None)


def statements(database: sqlite3.Connection, committer: Committer, *jobs: Job) -> list[str]:
    """Those that a commit of these runs."""
    seen: list[str] = []
    database.set_trace_callback(seen.append)
    committer.commit([*jobs])
    database.set_trace_callback(None)
    # A statement is told of again for each step of its trigger.
    return [statement for statement, _ in itertools.groupby(seen)]


@st.composite
def many_new(draw: st.DrawFn) -> list[New]:
    """All of them plain, or mixed with others."""
    states = draw(st.sampled_from((("pending",), ("pending", "waiting", "suppressed"))))
    most_recipients = len(states) - 1 or 1
    made = []
    for number in range(draw(st.integers(1, 12))):
        delivery_id = f"d{number}"
        name = draw(st.none() | st.just(f"key-{number}"))
        expires_at_ms = draw(st.none() | st.integers(1, 9))
        addresses = draw(st.lists(st.sampled_from("ab"), max_size=most_recipients, unique=True))
        fields: dict[str, Any] = {
            "queue": draw(st.sampled_from(("mail", "mail/slow"))),
            "topic": draw(st.none() | st.just("paid")),
            "priority": draw(st.integers(1, 4)),
            "due_at_ms": draw(st.integers(0, 9)),
            "recipients": tuple(Recipient(f"{each}@example.org") for each in addresses),
            "metadata": draw(st.sampled_from(({}, {"order": "7"}))),
            "state": draw(st.sampled_from(states)),
        }
        if name is not None:
            key = samples.key(name, delivery_id, expires_at_ms=expires_at_ms)
            fields |= {"key": name, "keys": (key,)}
        made.append(samples.new(delivery_id, **fields))
    return made


def stored(path: Path, new: list[New], *, exact: bool, widest: int) -> object:
    """All rows after these were added to a new file, and what was answered."""
    path.unlink(missing_ok=True)
    with (
        closing(connect_to_write(path, 1.0)) as connection,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setattr(adding_new, "WIDEST", widest)
        adding_new.make_ready(connection)
        session = Session(connection, exact=exact, looks_for_keys=exact)
        answers = add_all(session, [requested(new)])
        session.finish()
        rows = [
            sorted(connection.execute(f"select * from homing_{table}"), key=repr)
            for table in TABLES
        ]
    return answers, session.news, rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(many_new() | some_new())
def test_it_stores_what_adding_one_by_one_stores(tmp_path: Path, new: list[New]) -> None:
    path = tmp_path / "outbox.db"
    one_by_one = stored(path, new, exact=True, widest=adding_new.WIDEST)

    assert stored(path, new, exact=False, widest=adding_new.WIDEST) == one_by_one
    assert stored(path, new, exact=False, widest=0) == one_by_one


@pytest.mark.parametrize("number", [1, 7, 64, 65, adding_new.WIDEST])
def test_a_group_is_one_statement(
    database: sqlite3.Connection, committer: Committer, number: int
) -> None:
    half = number // 2
    jobs = [job(samples.many(half, prefix="a")), job(samples.many(number - half, prefix="b"))]

    [statement] = statements(database, committer, *jobs)

    assert statement.startswith("insert into homing_new")
    assert [len(each.answer) for each in jobs] == [half, number - half]
    assert database.execute("select count(*) from homing_deliveries").fetchone() == (number,)


def test_more_than_a_statement_can_take_is_one_transaction(
    database: sqlite3.Connection, committer: Committer
) -> None:
    ran = statements(database, committer, job(samples.many(adding_new.WIDEST + 1)))

    assert (ran[0], ran[-1]) == ("begin immediate", "commit")
    assert not [each for each in ran if "homing_new" in each]


@pytest.mark.parametrize("repeated", ["in the group", "stored"])
def test_a_repeated_key_changes_nothing_for_the_others(
    database: sqlite3.Connection, committer: Committer, repeated: str
) -> None:
    first, again = samples.keyed("one", "order-7"), samples.keyed("two", "order-7")
    jobs = [job([first]), job([samples.new("other")]), job([again])]
    if repeated == "stored":
        committer.commit([jobs.pop(0)])

    committer.commit(jobs)

    assert [each.error for each in jobs] == [None] * len(jobs)
    assert jobs[-2].answer == [Added("other")]
    [existing] = jobs[-1].answer
    assert isinstance(existing, Existing)
    assert existing.delivery_id == "one"
    ids = {each for (each,) in database.execute("select id from homing_deliveries")}
    assert ids == {"one", "other"}
    [(number,)] = database.execute("select sum(number) from homing_counts")
    assert number == len(ids)


def test_after_a_repeated_key_some_commits_look_for_keys_and_no_more(
    database: sqlite3.Connection, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "LOOK_FOR_KEYS", 2)
    committer.commit([job([samples.keyed("one", "order-7")])])
    committer.commit([job([samples.keyed("two", "order-7")])])

    ran = [statements(database, committer, job(samples.many(1, prefix=str(n)))) for n in range(2)]

    assert [each[0] for each in ran] == ["begin immediate", ran[1][0]]
    assert len(ran[1]) == 1


def test_the_first_add_of_a_second_counts_up_for_the_notice_of_old_backups(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    """A process that only adds is killed some day: its last closing does not come."""
    path = tmp_path / "outbox.db"

    Committer(database, path, 1.0, HighWater(path, database), lambda: None).commit(
        [job([samples.new("d1")])]
    )

    assert path.with_name(path.name + SUFFIX).exists()


def test_a_statement_whose_sync_fails_may_be_stored(
    committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error

    monkeypatch.setattr(Session, "write_filled", fail)
    jobs = [job([samples.new("d1")]), job([samples.new("d2")])]

    committer.commit(jobs)

    assert [type(each.error) for each in jobs] == [StoreOutcomeUnknown] * 2


def test_an_add_beside_a_renewal_is_synced(
    database: sqlite3.Connection, committer: Committer
) -> None:
    """A renewal alone waits for no disk."""
    held = RenewRequest("w1", [("d1", 1)], samples.NOW_MS)
    renewal = Job(renew_all, held, 1, cast("asyncio.Future[Any]", None))
    for jobs, synchronous in (([renewal], 1), ([renewal, job([samples.new("d1")])], 2)):
        committer.commit(jobs)
        assert database.execute("pragma synchronous").fetchone() == (synchronous,)


def test_two_groups_of_adds_take_turns() -> None:
    adds = [job(samples.many(number)) for number in (20, 12, 30, 2)]

    assert number_in_turn(adds, QUICK_COMMIT_S) == 2
    assert number_in_turn(adds[:1], QUICK_COMMIT_S) == 1
    assert number_in_turn([], QUICK_COMMIT_S) == 0


def test_on_a_slow_disk_all_adds_share_a_commit() -> None:
    adds = [job(samples.many(20)), job(samples.many(20))]

    assert number_in_turn(adds, 2 * QUICK_COMMIT_S) == 2


def test_other_requests_share_a_commit_with_all_adds() -> None:
    other = msgspec.structs.replace(job([]), work=lambda _session, _requests: [], size=1)
    jobs = [job(samples.many(20)), other, job(samples.many(20))]

    assert number_in_turn(jobs, 0.0) == 3
