"""A batch is one transaction: what is assumed stores what is looked up; errors are the batch's."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from homing.domain.delivery import New, Recipient
from homing.domain.errors import StoreOutcomeUnknown
from homing.domain.writes import write_of_new
from homing.ports import Added, Batch, Existing, Put, Renewal
from homing.stores.sql.held import HeldRecords
from homing.stores.sql.sqlite import committing
from homing.stores.sql.sqlite.block_inserts import WIDEST
from homing.stores.sql.sqlite.committing import Committer, Job
from homing.stores.sql.sqlite.connection import connect_to_write
from homing.stores.sql.sqlite.executing import execute
from homing.stores.sql.sqlite.high_water import SUFFIX, HighWater
from homing.stores.sql.sqlite.looking import NOTHING, Assumed, assume, look
from homing.stores.sql.sqlite.session import Session
from homing.testing import samples
from tests.unit.stores.new_deliveries import some_new

TABLES = ("deliveries", "records", "contents", "results", "recipients", "keys", "counts", "facts")


def put(new: Sequence[New]) -> Put:
    return Put([write_of_new(one) for one in new])


def job(*puts: Put, renewals: Sequence[Renewal] = ()) -> Job:
    """Nobody waits for the answer."""
    assumed = assume(puts, HeldRecords(), looks_for_keys=False)
    return Job(Batch(puts, renewals), assumed, cast("asyncio.Future[Any]", None))


def answers(done: Job) -> list[object]:
    assert done.error is None
    assert done.answer is not None
    assert done.answer.steps is not None
    return [*done.answer.steps.plan.judged.answers]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect_to_write(tmp_path / "outbox.db", 1.0)) as connection:
        yield connection


@pytest.fixture
def committer(
    tmp_path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> Committer:
    # Otherwise one commit a second counts up the pulse, too.
    monkeypatch.setattr(HighWater, "is_due", False)
    path = tmp_path / "outbox.db"
    return Committer(database, path, 1.0, HighWater(path, database), lambda: None)


@st.composite
def many_new(draw: st.DrawFn) -> list[New]:
    """All of them alike, or mixed with others."""
    states = draw(st.sampled_from((("pending",), ("pending", "waiting", "suppressed"))))
    made = []
    for number in range(draw(st.integers(1, 12))):
        delivery_id = f"d{number}"
        name = draw(st.none() | st.just(f"key-{number}"))
        addresses = draw(st.lists(st.sampled_from("ab"), max_size=2, unique=True))
        fields: dict[str, Any] = {
            "queue": draw(st.sampled_from(("mail", "mail/slow"))),
            "topic": draw(st.none() | st.just("paid")),
            "priority": draw(st.integers(1, 4)),
            "due_at_ms": draw(st.integers(0, 9)),
            "recipients": tuple(Recipient(f"{each}@example.org") for each in addresses),
            "state": draw(st.sampled_from(states)),
            "payload": draw(st.sampled_from((b"", b"{}"))),
        }
        if name is not None:
            expires_at_ms = draw(st.none() | st.integers(1, 9))
            key = samples.key(name, delivery_id, expires_at_ms=expires_at_ms)
            fields |= {"key": name, "keys": (key,)}
        made.append(samples.new(delivery_id, **fields))
    return made


def stored(path: Path, batches: Sequence[Sequence[New]], assumed: Assumed | None) -> object:
    """All rows after these were added to a new file, and what was answered."""
    path.unlink(missing_ok=True)
    with closing(connect_to_write(path, 1.0)) as connection:
        session = Session(connection)
        answered = []
        for new in batches:
            puts = [put(new)]
            known = assumed or assume(puts, HeldRecords(), looks_for_keys=False)
            steps = known.steps or look(session, puts, known)
            execute(session, steps)
            answered += steps.plan.judged.answers[0]
        session.put_counts()
        rows = [
            sorted(connection.execute(f"select * from homing_{table}"), key=repr)
            for table in TABLES
        ]
    return answered, session.news, rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(many_new() | some_new())
def test_what_is_assumed_stores_what_is_looked_up_and_what_is_added_one_by_one(
    tmp_path: Path, new: list[New]
) -> None:
    path = tmp_path / "outbox.db"
    one_by_one = stored(path, [[one] for one in new], NOTHING)

    assert stored(path, [new], NOTHING) == one_by_one
    assert stored(path, [new], None) == one_by_one


@pytest.mark.parametrize("number", [1, 7, 64, 65, WIDEST, WIDEST + 1, 2 * WIDEST + 7])
def test_blocks_of_any_width_are_stored_whole(
    database: sqlite3.Connection, committer: Committer, number: int
) -> None:
    """A statement is made for few widths, and the rows that fill it up are passed over."""
    new = [samples.keyed(f"d{nth}", f"k{nth}") for nth in range(number)]

    done = job(put(new))
    committer.commit(done)

    assert answers(done) == [[Added(one.delivery.id) for one in new]]
    for table in ("deliveries", "records", "contents", "keys"):
        assert database.execute(f"select count(*) from homing_{table}").fetchone() == (number,)
    [(ids,)] = database.execute(
        "select count(*) from homing_deliveries d join homing_records r on r.seq = d.seq"
        " where d.id = r.record ->> 'id' and d.key = 'k' || substr(d.id, 2)"
    )
    assert ids == number


@pytest.mark.parametrize("repeated", ["in the batch", "stored"])
def test_a_repeated_key_changes_nothing_for_the_others(
    database: sqlite3.Connection, committer: Committer, repeated: str
) -> None:
    first, again = samples.keyed("one", "order-7"), samples.keyed("two", "order-7")
    puts = [put([first]), put([samples.new("other")]), put([again])]
    if repeated == "stored":
        committer.commit(job(puts.pop(0)))

    done = job(*puts)
    committer.commit(done)

    *others, last = answers(done)
    assert others[-1] == [Added("other")]
    [existing] = cast("list[Existing]", last)
    assert existing.delivery_id == "one"
    ids = {each for (each,) in database.execute("select id from homing_deliveries")}
    assert ids == {"one", "other"}
    [(number,)] = database.execute("select sum(number) from homing_counts")
    assert number == len(ids)


def test_after_a_repeated_key_some_commits_look_for_keys_and_no_more(
    committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "LOOK_FOR_KEYS", 2)
    looks = []
    for new in (
        samples.keyed("one", "order-7"),
        samples.keyed("two", "order-7"),
        samples.new("three"),
    ):
        committer.commit(job(put([new])))
        looks.append(committer.looks_for_keys)

    assert looks == [False, True, False]


def test_keys_that_are_looked_for_are_not_assumed() -> None:
    keyed, unkeyed = put([samples.keyed("one", "k")]), put([samples.new("two")])

    assert assume([keyed], HeldRecords(), looks_for_keys=False).steps is not None
    assert assume([keyed], HeldRecords(), looks_for_keys=True).steps is None
    assert assume([unkeyed], HeldRecords(), looks_for_keys=True).steps is not None


def test_the_first_add_of_a_second_counts_up_for_the_notice_of_old_backups(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    """A process that only adds is killed some day: its last closing does not come."""
    path = tmp_path / "outbox.db"

    Committer(database, path, 1.0, HighWater(path, database), lambda: None).commit(
        job(put([samples.new("d1")]))
    )

    assert path.with_name(path.name + SUFFIX).exists()


class FailingSync:
    """A connection whose commits may or may not be on the disk."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, statement: str) -> sqlite3.Cursor:
        if statement == "commit":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error
        return self._connection.execute(statement)


def test_a_batch_whose_sync_fails_may_be_stored(
    database: sqlite3.Connection, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "_connection", FailingSync(database))
    monkeypatch.setattr(committing, "Session", lambda _connection: Session(database))

    done = job(put([samples.new("d1")]))
    committer.commit(done)

    assert isinstance(done.error, StoreOutcomeUnknown)


def test_an_add_beside_a_renewal_is_synced(
    database: sqlite3.Connection, committer: Committer
) -> None:
    """A renewal alone waits for no disk."""
    renewal = Renewal("w1", [("d1", 1)], samples.NOW_MS)
    for done, synchronous in (
        (job(renewals=[renewal]), 1),
        (job(put([samples.new("d1")]), renewals=[renewal]), 2),
    ):
        committer.commit(done)
        assert done.error is None
        assert database.execute("pragma synchronous").fetchone() == (synchronous,)
