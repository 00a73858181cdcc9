"""What a corrected payload keeps of the old one: who has it, and whether it may have been sent."""

from __future__ import annotations

from homing.domain import transitions
from homing.domain.delivery import Delivery, Recipient
from homing.domain.failure import Failure
from homing.domain.policy import Plan, Stage
from homing.testing import samples

PLAN = Plan(stages=(Stage(name="send"),))


def test_an_amended_envelope_keeps_whoever_has_it_already() -> None:
    delivery = Delivery(
        id="d",
        route="mail",
        queue="mail",
        stage="send",
        created_at_ms=1,
        updated_at_ms=1,
        state="failed",
        failed_because="rejected",
        recipients=(Recipient("ann@x.org", "accepted"), Recipient("bob@x.org", "refused")),
    )

    change = transitions.amend(delivery, b"new", plan=PLAN, now_ms=2, addresses=("robert@x.org",))

    assert [(r.address, r.outcome) for r in change.delivery.recipients] == [
        ("ann@x.org", "accepted"),
        ("robert@x.org", "open"),
    ]


def test_a_doubt_about_the_old_payload_is_not_settled_by_evidence_on_the_new_one() -> None:
    uncertain = failed_in_doubt()

    amended = transitions.amend(uncertain, b"new", plan=PLAN, now_ms=2).delivery
    assert (amended.maybe_sent, amended.possibly_sent, amended.committed_at_ms) == (
        False,
        True,
        None,
    )

    replayed = transitions.replay(amended, actor="ann", reason="x", now_ms=3).delivery
    sent_again = lose_the_answer(claimed(replayed))
    dispelled = transitions.dispel_doubt(claimed(sent_again)).delivery
    assert (dispelled.maybe_sent, dispelled.possibly_sent) == (False, True)
    assert [r.outcome for r in dispelled.recipients] == ["maybe"]

    ended = transitions.fail(dispelled, REFUSED, plan=PLAN, now_ms=6, roll=0.0).delivery
    assert (ended.state, ended.failed_because) == ("failed", "uncertain")


def test_an_amended_payload_that_is_accepted_ends_every_doubt() -> None:
    amended = transitions.amend(failed_in_doubt(), b"new", plan=PLAN, now_ms=2).delivery
    replayed = transitions.replay(amended, actor="ann", reason="x", now_ms=3).delivery

    ended = transitions.succeed(claimed(replayed), plan=PLAN, now_ms=4, roll=0.0).delivery

    assert (ended.state, ended.possibly_sent, ended.maybe_duplicate) == ("delivered", False, True)


def test_a_restart_keeps_the_doubt_of_a_later_stage() -> None:
    plan = Plan(stages=(Stage(name="render"), Stage(name="send", sends=True)))
    uncertain = failed_in_doubt()

    again = transitions.restart(uncertain, plan=plan, actor="ann", reason="x", now_ms=2).delivery
    rendered = transitions.advance(claimed(again), plan=plan, now_ms=3).delivery
    ended = transitions.fail(claimed(rendered), REFUSED, plan=plan, now_ms=4, roll=0.0).delivery

    assert (ended.stage, ended.failed_because) == ("send", "uncertain")


REFUSED = Failure("refused", "reject")


def failed_in_doubt() -> Delivery:
    """One send was marked and never answered; it is uncertain."""
    delivery = samples.delivery("d1", recipients=(Recipient("ann@x.org"),))
    in_doubt = claimed(lose_the_answer(claimed(delivery)))
    return transitions.dead_letter(in_doubt, "uncertain", plan=PLAN, now_ms=1).delivery


def lose_the_answer(delivery: Delivery) -> Delivery:
    marked = transitions.mark_committing(delivery, now_ms=1, frozen={}).delivery
    lost = Failure("answer_lost", maybe_sent=True)
    return transitions.fail(marked, lost, plan=PLAN, now_ms=1, roll=0.0).delivery


def claimed(delivery: Delivery) -> Delivery:
    return transitions.claim(delivery, holder="w", now_ms=1, lease_until_ms=9).delivery
