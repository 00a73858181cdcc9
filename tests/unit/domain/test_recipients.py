"""Each recipient of an envelope has an outcome of its own."""

from __future__ import annotations

from homing.domain import transitions
from homing.domain.delivery import Change, Delivery, Receipt, Recipient
from homing.domain.failure import Failure, Refusal
from tests.unit.domain.lives import (
    LOST,
    MINUTE_MS,
    NOW_MS,
    SEND,
    addressed,
    after_failure,
    claimed,
    failed,
    pending,
)

ANN, BOB, CAT = "ann@example.org", "bob@example.org", "cat@example.org"
BOUNCE = Refusal(permanent=True, code="550", detail="no such mailbox")
GREYLISTED = Refusal(permanent=False, code="451", detail="come back later")


def accept(before: Delivery, refused: dict[str, Refusal] | None = None) -> Change:
    return transitions.succeed(
        before, plan=SEND, now_ms=NOW_MS, roll=0.0, receipt=Receipt("n-1"), refused=refused
    )


def fail(before: Delivery, failure: Failure) -> Change:
    return transitions.fail(before, failure, plan=SEND, now_ms=NOW_MS, roll=0.0)


def outcomes(change: Change) -> dict[str, str]:
    return {r.address: r.outcome for r in change.delivery.recipients}


def in_doubt(*addresses: str) -> Delivery:
    """Claimed again, after a send whose answer was lost."""
    return claimed(after_failure(claimed(addressed(*addresses)), LOST))


def test_accepted_by_all_is_delivered() -> None:
    change = accept(claimed(addressed(ANN, BOB)))

    assert change.delivery.state == "delivered"
    assert outcomes(change) == {ANN: "accepted", BOB: "accepted"}
    assert change.delivery.receipt == Receipt("n-1", NOW_MS)
    assert [(a.status, a.notification_id) for a in change.ended] == [("done", "n-1")]


def test_any_refused_makes_it_failed_and_names_them() -> None:
    change = accept(claimed(addressed(ANN, BOB)), {BOB: BOUNCE})

    after = change.delivery
    assert (after.state, after.failed_because) == ("failed", "rejected")
    assert after.recipients == (
        Recipient(ANN, "accepted"),
        Recipient(BOB, "refused", "550", "no such mailbox"),
    )
    assert after.failure == Failure(
        "recipient_refused", "reject", code="550", detail="1 recipient(s) refused"
    )
    assert (after.receipt, change.ended[0].status) == (Receipt("n-1", NOW_MS), "rejected")


def test_a_retry_goes_only_to_the_open_ones() -> None:
    change = accept(claimed(addressed(ANN, BOB, CAT)), {BOB: GREYLISTED})

    after = change.delivery
    assert (after.state, after.due_at_ms) == ("pending", NOW_MS + MINUTE_MS)
    assert after.open_addresses == (BOB,)
    assert (after.failure, after.attempts_spent) == (
        Failure("recipient_deferred", code="451", detail="1 recipient(s) deferred"),
        1,
    )


def test_the_last_open_one_completes_it() -> None:
    half = accept(claimed(addressed(ANN, BOB)), {BOB: GREYLISTED}).delivery

    whole = accept(claimed(half))

    assert (whole.delivery.state, outcomes(whole)) == (
        "delivered",
        {ANN: "accepted", BOB: "accepted"},
    )


def test_a_refusal_of_an_earlier_attempt_is_counted_at_the_end() -> None:
    first = accept(claimed(addressed(ANN, BOB, CAT)), {BOB: BOUNCE, CAT: GREYLISTED}).delivery
    assert (first.state, first.open_addresses) == ("pending", (CAT,))

    last = accept(claimed(first)).delivery

    assert (last.state, last.failed_because) == ("failed", "rejected")
    assert last.failure is not None
    assert (last.failure.detail, last.failure.code) == ("1 recipient(s) refused", "550")


def test_put_off_until_the_budget_is_gone_it_is_exhausted() -> None:
    after = addressed(ANN, BOB)
    for _ in range(3):
        after = accept(claimed(after), {BOB: GREYLISTED}).delivery

    assert (after.state, after.failed_because, after.attempts_spent) == ("failed", "exhausted", 3)
    assert [r.outcome for r in after.recipients] == ["accepted", "open"]


def test_a_failure_may_answer_for_some_recipients() -> None:
    failure = Failure("recipient_deferred", refused={ANN: BOUNCE, BOB: GREYLISTED})

    change = fail(claimed(addressed(ANN, BOB)), failure)

    assert outcomes(change) == {ANN: "refused", BOB: "open"}
    assert change.delivery.open_addresses == (BOB,)


def test_who_has_it_keeps_it_whatever_a_later_answer_says() -> None:
    half = accept(claimed(addressed(ANN, BOB)), {BOB: GREYLISTED}).delivery

    refused = fail(claimed(half), Failure("refused", "reject", refused={ANN: BOUNCE, BOB: BOUNCE}))
    doubtful = fail(claimed(half), LOST)

    assert outcomes(refused) == {ANN: "accepted", BOB: "refused"}
    assert outcomes(doubtful) == {ANN: "accepted", BOB: "maybe"}


def test_a_refused_one_is_in_no_doubt() -> None:
    change = fail(
        claimed(addressed(ANN, BOB)), Failure("cut", maybe_sent=True, refused={BOB: BOUNCE})
    )

    assert outcomes(change) == {ANN: "maybe", BOB: "refused"}


def test_i7_one_in_doubt_is_not_called_refused_because_a_later_attempt_was() -> None:
    change = accept(in_doubt(ANN, BOB), {BOB: BOUNCE})

    assert outcomes(change) == {ANN: "accepted", BOB: "maybe"}
    assert (change.delivery.state, change.delivery.failed_because) == ("failed", "uncertain")


def test_i7_one_in_doubt_stays_so_while_it_is_put_off() -> None:
    after = in_doubt(ANN, BOB)
    for _ in range(2):
        after = accept(claimed(after), {BOB: GREYLISTED}).delivery

    assert (after.state, after.failed_because) == ("failed", "uncertain")
    assert [r.outcome for r in after.recipients] == ["accepted", "maybe"]


def test_i7_a_failure_that_refuses_one_in_doubt_leaves_it_in_doubt() -> None:
    change = fail(in_doubt(ANN, BOB), Failure("deferred", refused={BOB: BOUNCE}))

    assert outcomes(change) == {ANN: "maybe", BOB: "maybe"}
    assert change.delivery.recipients[1].code == "550"


def test_evidence_for_the_message_is_none_for_who_was_refused() -> None:
    before = claimed(
        fail(
            claimed(addressed(ANN, BOB)), Failure("cut", maybe_sent=True, refused={BOB: BOUNCE})
        ).delivery
    )

    change = transitions.settle_found(before, plan=SEND, now_ms=NOW_MS, receipt=Receipt("n-1"))

    assert (change.delivery.state, change.delivery.failed_because) == ("failed", "rejected")
    assert outcomes(change) == {ANN: "accepted", BOB: "refused"}


def test_an_operators_evidence_is_none_for_who_was_refused() -> None:
    ended = transitions.dead_letter(
        claimed(
            fail(
                claimed(addressed(ANN, BOB)), Failure("cut", maybe_sent=True, refused={BOB: BOUNCE})
            ).delivery
        ),
        "uncertain",
        plan=SEND,
        now_ms=NOW_MS,
    ).delivery

    change = transitions.confirm(ended, plan=SEND, evidence="Ann has it", now_ms=NOW_MS)

    assert (change.delivery.state, change.delivery.failed_because) == ("failed", "rejected")
    assert outcomes(change) == {ANN: "accepted", BOB: "refused"}


def test_a_replay_asks_the_refused_again_and_leaves_alone_who_has_it() -> None:
    ended = accept(claimed(addressed(ANN, BOB)), {BOB: BOUNCE}).delivery

    after = transitions.replay(ended, actor="ann", reason="typo fixed", now_ms=NOW_MS).delivery

    assert after.recipients == (Recipient(ANN, "accepted"), Recipient(BOB))
    assert after.open_addresses == (BOB,)


def test_a_delivery_without_recipients_has_nobody_to_miss() -> None:
    assert accept(claimed(pending())).delivery.state == "delivered"
    assert failed().recipients == ()
