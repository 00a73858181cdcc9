"""Who may do what with `core.outbox`: the rights of the database, and no way around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.conformance.events.outbox import Outbox

INSERT = (
    "insert into core.outbox (event_type, payload, idempotency_key)"
    " values ('invoice.paid', '{}', 'k') returning event_id"
)
# Each acts with the rights of its owner.
CALLS = {
    "outbox_enqueue": "select core.outbox_enqueue('invoice.paid', '{}', 'by-function')",
    "outbox_replay": "select core.outbox_replay(gen_random_uuid(), 0, 'ann')",
}


@contextmanager
def as_role(outbox: Outbox, *grants: str) -> Iterator[None]:
    """The connection has the rights of a role that was granted these, and no others."""
    outbox.sql("create role visitor")
    try:
        for grant in ("usage on schema core", *grants):
            outbox.sql(f"grant {grant} to visitor")
        outbox.sql("set role visitor")
        yield
    finally:
        outbox.sql("reset role")
        outbox.sql("drop owned by visitor")
        outbox.sql("drop role visitor")


def test_a_producer_inserts_and_does_nothing_else(outbox: Outbox) -> None:
    """E-006"""
    with as_role(outbox, "insert on core.outbox", "select (event_id) on core.outbox"):
        assert outbox.value(INSERT) is not None
        for statement in (*CALLS.values(), "select payload from core.outbox"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                outbox.sql(statement)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            outbox.sql("select * from homing_open")
    assert outbox.value("select count(*) from core.outbox") == 1


def test_an_operator_deletes_and_replays(outbox: Outbox) -> None:
    """E-032, E-046"""
    failed = outbox.value(
        "insert into core.outbox (event_type, payload, idempotency_key, status)"
        " values ('paid', '{}', 'failed', 'failed') returning event_id"
    )
    with as_role(outbox, "select, update on core.outbox", "execute on function core.outbox_replay"):
        for at in ("now()", "null"):
            outbox.sql(f"update core.outbox set deleted_at = {at} where event_id = %s", failed)
        outbox.replay(failed, 0, "ann")
        assert outbox.row(failed)["status"] == "pending"
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            outbox.sql(INSERT)


def test_the_functions_are_granted_by_name(outbox: Outbox) -> None:
    """E-032"""
    with as_role(
        outbox,
        "execute on function core.outbox_enqueue",
        "execute on function core.outbox_replay",
        "select on core.outbox, core.event_handled",
    ):
        event_id = outbox.value(CALLS["outbox_enqueue"])
        assert outbox.row(event_id)["status"] == "pending"
        assert outbox.sql("select * from core.event_handled") == []
        with pytest.raises(psycopg.errors.NoDataFound, match="there is no event"):
            outbox.sql(CALLS["outbox_replay"])


@pytest.mark.parametrize("table", ["homing_facts", "homing_ended", "outbox", "event_handled"])
def test_a_table_of_the_caller_does_not_take_the_place_of_ours(outbox: Outbox, table: str) -> None:
    """A trigger on it would run with the rights of the functions' owner."""
    with as_role(outbox, "insert on core.outbox"):
        outbox.sql(f"create temp table {table} (id text)")
        outbox.sql(INSERT.partition(" returning")[0])
        outbox.sql(
            "insert into core.outbox (event_type, payload, idempotency_key, status)"
            " values ('invoice.paid', '{}', 'handled', 'delivered')"
        )
        assert outbox.value(f"select count(*) from pg_temp.{table}") == 0
        outbox.sql(f"drop table pg_temp.{table}")
    assert outbox.value("select count(*) from core.outbox") == 2
