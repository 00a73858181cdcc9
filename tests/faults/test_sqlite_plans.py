"""What is asked often is answered from an index: no fault of the planner makes a claim scan."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, get_args

import pytest

from homing.domain.delivery import Change, Key, Recipient, State
from homing.domain.writes import Write, write_of_change, write_of_new
from homing.ports import Cursor, Facet, FactOrder, GroupBy, PurgeRule, Put, Query, Renewal
from homing.stores.sql import listing, reading
from homing.stores.sql.held import HeldRecords
from homing.stores.sql.sqlite.claiming import claim_all, claimed_of, renew_all
from homing.stores.sql.sqlite.connection import connect_to_write
from homing.stores.sql.sqlite.dialect import DIALECT, answer
from homing.stores.sql.sqlite.executing import execute
from homing.stores.sql.sqlite.looking import NOTHING, assume, look
from homing.stores.sql.sqlite.purging import purge_all
from homing.stores.sql.sqlite.session import Session
from homing.testing import samples

# Lists that a statement brings along or that hold one row may be walked through (`s` is SQLite's
# own list of sequences), and so may what is in flight: it is never more than processes hold.
HARMLESS = re.compile(
    r"SCAN (w|v|s|picked|json_each|CONSTANT ROW|homing_pulse|d USING INDEX \w+_leases)\b"
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = connect_to_write(tmp_path / "outbox.db", 1.0)
    yield connection
    connection.close()


class Watched:
    """Collects the plans of the statements that are run on a connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._seen: list[str] = []

    def __enter__(self) -> Self:
        self._connection.set_trace_callback(self._seen.append)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.set_trace_callback(None)

    def plans(self) -> list[str]:
        return [
            step
            for statement in self._seen
            if statement.split()[0] in ("select", "insert", "update", "delete")
            for (_, _, _, step) in self._connection.execute(f"explain query plan {statement}")
        ]

    def scans(self) -> list[str]:
        assert self._seen
        return [step for step in self.plans() if "SCAN" in step and not HARMLESS.search(step)]


def test_writes_and_claims_scan_nothing(database: sqlite3.Connection) -> None:
    session = Session(database)
    key = Key("shop", "k", "d1", expires_at_ms=samples.NOW_MS + 1)
    new = samples.new("d1", keys=(key,), recipients=(Recipient("ann"),), facts=[samples.fact("f")])
    child = samples.child("c", "d1")
    ended = Change(samples.ended(new.delivery).delivery, (samples.attempt("d1"),), {"send": b"x"})
    fanned = samples.waiting(new.delivery, [child])
    amended = Change(new.delivery, payload=b"new", drop_results=True)
    forgotten = Change(child.delivery, child_delta=-1, forget=True)

    with Watched(database) as watched:
        put(session, write_of_new(new))
        claim_all(session, [samples.claim(queues=("a", "b"))])
        renew_all(session, [Renewal("w1", [("d1", 2)], 1)])
        for change in (ended, fanned, amended, forgotten):
            put(session, write_of_change(change))
        session.finish()

    assert watched.scans() == []


def test_saves_of_held_records_scan_nothing(database: sqlite3.Connection) -> None:
    session = Session(database)
    put(session, *(write_of_new(one) for one in samples.many(3)))
    claim = samples.claim()
    held = HeldRecords()
    for one, row in claimed_of(claim, *claim_all(session, [claim])):
        held.remember(one.delivery, row)
    ended, marked, retried = held.records.values()
    changes = [samples.ended(ended), Change(marked), samples.retry(retried)]

    with Watched(database) as watched:
        puts = [Put([write_of_change(change) for change in changes])]
        steps = assume(puts, held, looks_for_keys=False).steps
        assert steps is not None
        execute(session, steps)

    assert watched.scans() == []


def put(session: Session, *writes: Write) -> None:
    execute(session, look(session, [Put(writes)], NOTHING))


def test_a_claim_sorts_nothing(database: sqlite3.Connection) -> None:
    """The index gives the order of a claim: what is due later is never looked at."""
    with Watched(database) as watched:
        claim_all(Session(database), [samples.claim()])

    assert not any("TEMP B-TREE" in step for step in watched.plans())


def test_retention_by_route_scans_nothing(database: sqlite3.Connection) -> None:
    add_rows(database, 3, ended_at_ms=0, route="mail")
    failed: tuple[State, ...] = ("failed",)
    rules = [
        PurgeRule(what="payload", route="mail", before_ms=1, states=failed),
        PurgeRule(what="delivery", route="mail", before_ms=1, states=failed),
        PurgeRule(what="attempts", route="mail", before_ms=1),
        PurgeRule(what="keys", before_ms=1),
        PurgeRule(what="facts", before_ms=1, fact_kind="note"),
    ]
    with Watched(database) as watched:
        assert purge_all(Session(database), rules) == [3, 3, 0, 0, 0]

    assert watched.scans() == []


def test_questions_about_one_delivery_scan_nothing(database: sqlite3.Connection) -> None:
    with Watched(database) as watched:
        answer(database, reading.get(DIALECT, "d1"))
        answer(database, reading.get_many(DIALECT, ["d1", "d2"]))
        answer(database, reading.content(DIALECT, "d1"))
        answer(database, reading.find(DIALECT, "shop", "k"))
        answer(database, reading.attempts_of_many(DIALECT, ["d1"]))
        for order in get_args(FactOrder):
            answer(database, reading.facts(DIALECT, "note", "d1/", 10, None, order))
        answer(database, reading.next_due_ms(DIALECT, ("a", "b")))

    assert watched.scans() == []
    assert not any("TEMP B-TREE" in step for step in watched.plans())


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (Query(), "created"),
        (Query(created_from_ms=1), "created"),
        (Query(facets=(Facet(state="failed"),)), "failed"),
        (
            Query(facets=(Facet(state="failed", stage="a"), Facet(state="failed", stage="b"))),
            "failed",
        ),
        (Query(notices_due=True), "notices_due"),
        (Query(parent_id="p", facets=(Facet(state="failed"),)), "parent"),
        (Query(clone_of="d"), "clone"),
    ],
)
def test_a_listing_is_read_in_its_order(
    database: sqlite3.Connection, query: Query, index: str
) -> None:
    with Watched(database) as watched:
        answer(database, listing.page(DIALECT, query, None, 10))

    step, record = watched.plans()
    assert f"homing_deliveries_{index}" in step
    assert "SEARCH r USING INTEGER PRIMARY KEY" in record


@pytest.mark.parametrize(
    "query",
    [
        Query(holder="w1", facets=(Facet(state="in_flight"),)),
        Query(recipient="ann@example.org", facets=(Facet(state="failed"),)),
    ],
)
def test_a_narrow_listing_reads_what_it_is_about(
    database: sqlite3.Connection, query: Query
) -> None:
    with Watched(database) as watched:
        answer(database, listing.page(DIALECT, query, None, 10))

    assert watched.scans() == []


@pytest.mark.parametrize(
    ("query", "by"),
    [
        (Query(), ("route", "state")),
        (Query(), ()),
        (Query(facets=(Facet(state="pending"),)), ("queue",)),
        (Query(facets=(Facet(state="in_flight"),)), ("queue",)),
        (Query(facets=(Facet(state="failed"), Facet(state="waiting"))), ("route",)),
        (Query(facets=(Facet(state="failed"),)), ("route", "error_class", "failed_because")),
        (Query(error_class="a", facets=(Facet(state="failed", failed_because="expired"),)), ()),
    ],
)
def test_a_count_by_state_reads_few_rows_however_many_there_are(
    database: sqlite3.Connection, query: Query, by: tuple[GroupBy, ...]
) -> None:
    with Watched(database) as watched:
        answer(database, listing.count(DIALECT, query, by, None, counted=True))

    read = [step for step in watched.plans() if step.startswith(("SCAN", "SEARCH"))]
    few = re.compile(r"SCAN (c|d|b USING INDEX \w+_leases|b USING COVERING INDEX \w+_waiting)$")
    assert read
    assert [step for step in read if not few.search(step)] == []


def test_failures_since_lately_are_counted_without_the_others(
    database: sqlite3.Connection,
) -> None:
    query = Query(updated_from_ms=1, facets=(Facet(state="failed"),))
    with Watched(database) as watched:
        by: tuple[GroupBy, ...] = ("route", "error_class", "failed_because")
        answer(database, listing.count(DIALECT, query, by, 10, counted=False))

    [step] = [step for step in watched.plans() if step.startswith("SEARCH")]
    assert "INDEX homing_deliveries_failed_since (updated_at_ms>?)" in step


@pytest.mark.parametrize(
    "query",
    [
        Query(source="shop"),
        Query(key="k"),
        Query(error_class="550", facets=(Facet(state="pending"), Facet(state="failed"))),
        Query(topic="t", facets=(Facet(state="failed"),)),
        Query(recipient="ann"),
    ],
)
@pytest.mark.parametrize("newer", [False, True])
def test_a_bounded_page_walks_from_its_cursor_to_its_edge(
    database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, query: Query, newer: bool
) -> None:
    """As with so many rows that none of the states has few, and the address very many."""
    monkeypatch.setattr("homing.stores.sql.few.FEW", -1)
    monkeypatch.setattr(DIALECT, "few_to_one_address", 0)
    add_rows(database, 10)
    with Watched(database) as watched:
        cursor = Cursor(samples.NOW_MS, "d00005", newer)
        found = answer(database, listing.page_within(DIALECT, query, cursor, 10, 1))

    assert (found.previous if newer else found.next) is not None
    index = "failed" if query.topic else "created"
    walks = [step for step in watched.plans() if step.startswith("SEARCH d ")]
    assert len(walks) == 2
    assert all(f"INDEX homing_deliveries_{index} ((created_at_ms,id)" in step for step in walks)
    assert not any("FOR ORDER BY" in step for step in watched.plans())


def test_what_few_have_is_found_by_its_index(database: sqlite3.Connection) -> None:
    every = tuple(Facet(state=state) for state in get_args(State))
    with Watched(database) as watched:
        for query in (
            Query(route="mail", facets=every),
            Query(error_class="550", facets=(Facet(state="failed"),)),
        ):
            answer(database, listing.page(DIALECT, query, None, 10))

    read = [step for step in watched.scans() if not re.search(r"SCAN (c|d|\(sub\S*)( |$)", step)]
    assert [step for step in read if "USING" not in step] == []


def test_a_delivery_that_does_not_fail_is_written_to_these_indexes_alone(
    database: sqlite3.Connection,
) -> None:
    """Each costs every add or every settle; those of dead letters do not."""
    found = database.execute(
        "select name from sqlite_schema where type = 'index' and tbl_name = 'homing_deliveries'"
        " and coalesce(sql, '') not like '%where state = ''failed''%'"
    )
    assert {name.removeprefix("homing_deliveries_") for (name,) in found} == {
        "sqlite_autoindex_homing_deliveries_1",
        "ready",
        "leases",
        "created",
        "notices_due",
        "notices_due_since",
        "waiting",
        "parent",
        "clone",
        "ended",
    }


def add_rows(database: sqlite3.Connection, number: int, **fields: Any) -> None:
    session = Session(database)
    database.execute("begin")
    new = samples.many(
        number,
        created_at_ms=samples.NOW_MS,
        state="failed",
        recipients=(Recipient("ann"),),
        **fields,
    )
    put(session, *(write_of_new(each) for each in new))
    session.finish()
    database.execute("commit")
