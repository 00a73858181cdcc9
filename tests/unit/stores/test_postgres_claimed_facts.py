"""What a claim has seen of facts is believed once, for a moment, and no longer than it is true."""

from __future__ import annotations

import pytest

from homing.domain.delivery import Content
from homing.ports import Claimed
from homing.stores.sql.columns import Row
from homing.stores.sql.postgres.claimed_facts import TRUSTED_S, ClaimedFacts
from homing.stores.sql.postgres.claiming import HAS_FACTS
from homing.testing import samples

KIND = "event_handled"
KEYS = ["d1/name"]


@pytest.fixture
def facts() -> ClaimedFacts:
    """The kind was asked for before: claims look for it."""
    facts = ClaimedFacts()
    assert not facts.has_none(KIND, KEYS, 0.0)
    return facts


def see(facts: ClaimedFacts, *, has_facts: bool, parent_id: str | None = None) -> None:
    """A claim at second 10."""
    row: Row = ("d1", *[None] * (HAS_FACTS - 1), has_facts)
    delivery = samples.delivery("d1", parent_id=parent_id)
    facts.see([row], [Claimed(delivery, Content())], 10.0)


def test_the_last_claim_counts(facts: ClaimedFacts) -> None:
    """The first was lost; another program has said since then that the event was handled."""
    see(facts, has_facts=False)
    see(facts, has_facts=True)

    assert not facts.has_none(KIND, KEYS, 10.0)


def test_it_holds_for_one_question_in_time(facts: ClaimedFacts) -> None:
    see(facts, has_facts=False)
    assert facts.has_none(KIND, KEYS, 10.0 + TRUSTED_S)
    assert not facts.has_none(KIND, KEYS, 10.0 + TRUSTED_S)
    see(facts, has_facts=False)
    assert not facts.has_none(KIND, KEYS, 10.1 + TRUSTED_S)


def test_of_several_keys_all_must_be_known(facts: ClaimedFacts) -> None:
    see(facts, has_facts=False, parent_id="event")

    assert facts.has_none(KIND, ["d1/name", "event/name"], 10.0)
    see(facts, has_facts=False)
    assert not facts.has_none(KIND, ["d1/name", "d2/name"], 10.0)


def test_another_kind_is_looked_up_first(facts: ClaimedFacts) -> None:
    see(facts, has_facts=False)

    assert not facts.has_none("other", KEYS, 10.0)
    assert facts.kind == "other"
    assert not facts.has_none("other", KEYS, 10.0)
