"""The shortcuts of the SQL stores take only what the rule for new deliveries writes as they do.

PostgreSQL's takes a `New` and makes no `Write` of it; SQLite's takes one row of a `Write`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from homing.domain.delivery import Key, New
from homing.domain.writes import Write, write_of_new
from homing.stores.codec import encode_text
from homing.stores.sql.postgres.adding import add_request
from homing.stores.sql.postgres.adding_alone import lone_statement
from homing.stores.sql.postgres.adding_plainly import are_plain
from homing.stores.sql.sqlite.adding_new import plain_row
from tests.unit.stores.new_deliveries import alike, odd_batches, some_alike, some_new


def plain_write(new: New) -> Write:
    """All that such a statement writes: the record, the payload, the given keys; and it wakes.

    A rule that gives a `Write` anything else does not reach the statement.
    """
    return Write(
        delivery=new.delivery,
        keys=new.keys,
        free_by_ms=new.delivery.created_at_ms,
        payload=new.payload,
        opens=1,
        wakes=True,
    )


def check_postgresql(new: list[New]) -> None:
    if not are_plain(new):
        return
    for one in new:
        assert write_of_new(one) == plain_write(one)
        assert one.payload
        assert not one.delivery.recipients
        # The statement takes these columns from the delivery, and writes no expiry.
        [key] = one.keys
        assert (key.key, key.delivery_id) == (one.delivery.key, one.delivery.id)
        assert key.source == new[0].keys[0].source
        assert key.expires_at_ms is None


def check_lone_in_postgresql(new: list[New]) -> None:
    for one in new:
        if lone_statement([add_request([one])]) is not None:
            assert write_of_new(one) == plain_write(one)
            assert one.payload
            assert not one.delivery.recipients


def check_sqlite(new: list[New]) -> None:
    for one in new:
        write, delivery = write_of_new(one), one.delivery
        if plain_row(write, encode_text(delivery)) is None:
            continue
        assert write == plain_write(one)
        assert one.payload
        assert len(delivery.recipients) <= 1
        if delivery.key is None:
            assert not one.keys
        else:
            own = Key(delivery.source, delivery.key, delivery.id, one.keys[0].fingerprint)
            assert one.keys == (own,)


CHECKS = (check_postgresql, check_lone_in_postgresql, check_sqlite)


@pytest.mark.parametrize("check", CHECKS)
def test_a_shortcut_takes_what_the_rule_writes_so(check: Callable[[list[New]], None]) -> None:
    for new in odd_batches():
        check(new)


@pytest.mark.parametrize("check", CHECKS)
@settings(max_examples=200)
@given(new=some_new())
def test_a_shortcut_takes_what_the_rule_writes_so_in_any_combination(
    check: Callable[[list[New]], None], new: list[New]
) -> None:
    check(new)


@given(some_alike())
def test_all_that_are_alike_are_plain(new: list[New]) -> None:
    """Else the tests above would compare nothing."""
    assert are_plain(new)


def test_an_ordinary_one_is_plain_in_sqlite() -> None:
    [new] = alike(1, {})
    assert plain_row(write_of_new(new), encode_text(new.delivery)) is not None
