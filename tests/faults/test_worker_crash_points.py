"""A worker is killed at each named point between accept, claim, provider and mark (P0 to P7).

Each case is one delivery with two lives: the first is killed by a trap at the point, the second
begins an hour later, is asked for the same key again, and works until nothing is open.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.faults.processes import lives, until
from tests.faults.reckoning import Books, contradictions, lost, read_books
from tests.faults.shared_time import SharedTime
from tests.faults.traps import Trap
from tests.faults.worker import Setup

KEY = "booking-42"
HOUR_S = 3600.0

BROKEN_OFF = "interrupted"  # before the mark: not counted, not in doubt
IN_DOUBT = "interrupted W1"
DONE = "done"
# The caller has no answer when the process dies there, and nothing was claimed: it asks again.
UNANSWERED = ("P0", "P1")


class Case(Struct, frozen=True):
    """What a kill at the point must lead to; `policy` is what is done about doubt."""

    point: str
    policy: str
    attempts: tuple[str, ...]
    accepted: int
    state: str = "delivered"
    flagged: bool = False

    @property
    def name(self) -> str:
        return f"{self.point}-{self.policy}"


CASES = (
    Case("P0", "retry", (DONE,), accepted=1),
    Case("P1", "retry", (DONE,), accepted=1),
    Case("P2", "retry", (BROKEN_OFF, DONE), accepted=1),
    Case("P3", "retry", (BROKEN_OFF, DONE), accepted=1),
    Case("P4", "retry", (IN_DOUBT, DONE), accepted=1, flagged=True),
    Case("P5", "retry", (IN_DOUBT, DONE), accepted=2, flagged=True),
    Case("P6", "retry", (IN_DOUBT, DONE), accepted=2, flagged=True),
    Case("P7", "retry", (DONE,), accepted=1),
    Case("P4", "hold", (IN_DOUBT,), accepted=0, state="failed"),
    Case("P5", "hold", (IN_DOUBT,), accepted=1, state="failed"),
    Case("P6", "hold", (IN_DOUBT,), accepted=1, state="failed"),
    Case("P4", "look", (IN_DOUBT, DONE), accepted=1),
    Case("P5", "look", (IN_DOUBT,), accepted=1),
    Case("P6", "look", (IN_DOUBT,), accepted=1),
)


class Story(Struct):
    """What callers were told in each life, and what was found in the end."""

    setup: Setup
    first: dict[str, str]
    second: dict[str, str]
    books: Books


def setup_for(case: Case, folder: Path) -> Setup:
    folder.mkdir()
    return Setup(
        folder=folder,
        store=folder / "outbox.db",
        time=folder / "time",
        on_unknown="hold" if case.policy == "hold" else "retry",
        can_look=case.policy == "look",
        traps=(Trap(case.point),),
    )


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Story]:
    """All cases at once: most of their time is the start of a process."""
    place = tmp_path_factory.mktemp("crash-points")
    setups = {case.name: setup_for(case, place / case.name) for case in CASES}
    told: dict[str, Story] = {}
    with lives() as start:
        victims = {
            name: start(replace(setup, claims_when_told=True)) for name, setup in setups.items()
        }
        for victim in victims.values():
            victim.order("submit", KEY, "ok@stub.test")
        for case in CASES:
            if case.point not in UNANSWERED:
                victims[case.name].until_said("acked")
                victims[case.name].order("claim")
        heirs = {}
        for name, victim in victims.items():
            assert victim.until_dead() == -signal.SIGKILL
            SharedTime(setups[name].time).let_pass(HOUR_S)
            heirs[name] = start(replace(setups[name], traps=()))
            heirs[name].order("submit", KEY, "ok@stub.test")
        for name, heir in heirs.items():
            heir.until_said("acked")
            heir.order("end")
            heir.until_said("ended")
            heir.stop()
            books = read_books(setups[name].store, setups[name].ledger)
            told[name] = Story(setups[name], victims[name].acked, heir.acked, books)
    return told


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kill_at_this_point_ends_as_promised(stories: dict[str, Story], case: Case) -> None:
    record = stories[case.name].books.of(KEY)

    shown = [" ".join(filter(None, (a.status, a.window))) for a in record.attempts]
    assert tuple(shown) == case.attempts
    assert len(record.accepted) == case.accepted
    assert record.delivery.state == case.state
    assert record.delivery.maybe_duplicate is case.flagged
    assert contradictions(stories[case.name].books) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_same_key_gives_the_same_delivery_in_the_next_life_i3(
    stories: dict[str, Story], case: Case
) -> None:
    story = stories[case.name]

    assert len(story.books.records) == 1
    assert lost(story.books, story.first) == []
    assert lost(story.books, story.second) == []
    if case.point in UNANSWERED:
        assert story.first == {}
    else:
        assert story.first == story.second


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_only_what_was_marked_is_charged_i16(stories: dict[str, Story], case: Case) -> None:
    record = stories[case.name].books.of(KEY)

    for attempt in record.attempts:
        assert attempt.counted is not (attempt.status == "interrupted" and attempt.window is None)


@pytest.mark.parametrize("point", ["P4", "P5", "P6"])
def test_what_is_held_in_doubt_is_uncertain_and_never_called_unsent_i7(
    stories: dict[str, Story], point: str
) -> None:
    story = stories[f"{point}-hold"]

    assert story.books.of(KEY).delivery.failed_because == "uncertain"
    assert story.setup.alerts.read_text().count("because=uncertain") == 1


@pytest.mark.parametrize("point", ["P5", "P6"])
def test_a_provider_that_can_be_asked_is_not_sent_a_second_one_i9(
    stories: dict[str, Story], point: str
) -> None:
    receipt = stories[f"{point}-look"].books.of(KEY).delivery.receipt

    assert receipt is not None
    assert receipt.evidence == "lookup"


def test_a_dead_letter_is_alerted_in_the_next_life_p10(tmp_path: Path) -> None:
    setup = setup_for(Case("P7", "retry", (), accepted=0), tmp_path / "dead")
    with lives() as start:
        victim = start(replace(setup, claims_when_told=True))
        victim.order("submit", KEY, "bounce@stub.test")
        victim.until_said("acked")  # it looked for due notices at its start, and found none
        victim.order("claim")
        assert victim.until_dead() == -signal.SIGKILL
        before = read_books(setup.store, setup.ledger)
        assert before.of(KEY).delivery.notices_due == ("alert",)
        assert not setup.alerts.exists()

        SharedTime(setup.time).let_pass(HOUR_S)
        heir = start(replace(setup, traps=())).ready()
        until(
            lambda: not read_books(setup.store, setup.ledger).of(KEY).delivery.notices_due,
            lambda: "no alert was given",
        )
        heir.stop()

    assert setup.alerts.read_text().count("DEAD LETTER") == 1


def test_crashes_before_the_mark_make_it_poison_and_cost_no_attempt_i16(tmp_path: Path) -> None:
    """Three deaths in ever smaller batches, then five while tried alone: only those count."""
    deaths = 8
    setup = setup_for(Case("P3", "retry", (), accepted=0), tmp_path / "poison")
    with lives() as start:
        for life in range(deaths):
            victim = start(setup)
            if life == 0:
                victim.order("submit", KEY, "ok@stub.test")
            assert victim.until_dead() == -signal.SIGKILL
            SharedTime(setup.time).let_pass(HOUR_S)
        last = start(setup).ready()  # the trap is still set: nothing is prepared any more
        last.order("end")
        last.until_said("ended")
        last.stop()

    books = read_books(setup.store, setup.ledger)
    record = books.of(KEY)
    assert (record.delivery.state, record.delivery.failed_because) == ("failed", "poison")
    assert record.delivery.attempts_spent == 0
    assert [attempt.status for attempt in record.attempts] == [BROKEN_OFF] * deaths
    assert record.accepted == []
    assert contradictions(books) == []
