"""Which puts a lost statement had written, told from what is stored."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain.delivery import Change, Delivery
from homing.domain.writes import write_of_change, write_of_new
from homing.ports import Added, Existing, Put, PutAnswer
from homing.stores.codec import encode_text
from homing.stores.sql.columns import FRESH
from homing.stores.sql.knowledge import Knowledge
from homing.stores.sql.postgres.lost_answers import corrected
from homing.testing import samples


def known(*stored: Delivery) -> Knowledge:
    knowledge = Knowledge()
    for one in stored:
        fresh = [getattr(one, name, None) for name in FRESH]
        knowledge.note_record(encode_text(one), fresh)
    return knowledge


def next_of(delivery: Delivery) -> Delivery:
    return replace(delivery, version=delivery.version + 1)


def test_an_add_that_its_own_delivery_is_in_the_way_of_was_made_once() -> None:
    puts = [Put([write_of_new(samples.new(name)) for name in ("a", "a", "b")])]
    given: list[list[PutAnswer]] = [[Existing("a"), Existing("a"), Existing("c")]]
    assert corrected(puts, given, known()) == [[Added("a"), Existing("a"), Existing("c")]]


def test_saves_of_one_delivery_are_told_by_the_last() -> None:
    held = samples.delivery("a")
    first = samples.retry(held)
    second = Change(samples.changed(next_of(first.delivery), topic="second"))
    puts = [Put([write_of_change(one)]) for one in (first, first, second)]
    refused: list[list[PutAnswer]] = [[False], [False], [False]]

    written = known(next_of(second.delivery))
    assert corrected(puts, refused, written) == [[True], [False], [True]]
    other = known(next_of(samples.changed(next_of(held), topic="another's")))
    assert corrected(puts, refused, other) == refused


def test_the_first_of_equal_saves_was_made() -> None:
    end = write_of_change(samples.ended(samples.delivery("a")))
    stored = known(next_of(end.delivery))
    assert corrected([Put([end, end])], [[False, False]], stored) == [[True, False]]


def test_what_was_removed_is_not_there() -> None:
    puts = [
        Put([write_of_change(Change(samples.delivery("a"), forget=True))]),
        Put([write_of_change(samples.ended(samples.delivery("b")))]),
    ]
    assert corrected(puts, [[False], [False]], known()) == [[True], [False]]
