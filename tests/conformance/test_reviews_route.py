"""Reviews (001, both parts): stages with budgets, nine kinds of failure, one mail per recipient."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from homing.domain.delivery import Content, Delivery
from homing.domain.errors import InvalidRequest, NotAllowed
from homing.domain.failure import Failure
from homing.ports import Done, Envelope, Query, Work
from homing.runtime.mail_route import SEND_TIMEOUT_S
from homing.testing.clocks import ManualClock
from homing.testing.random_numbers import SeededRandom
from homing_systems.reviews.classification import (
    CATEGORIES,
    Upstream,
    category_of_code,
    classify,
)
from homing_systems.reviews.job import Recipient, Review, request_for
from homing_systems.reviews.record import JOB_LAYOUT, ROW_LAYOUT, dead_letter, is_escalated
from homing_systems.reviews.route import LABELS, RETRY, reviews_route
from tests.conformance.world import (
    Answer,
    CrashPoint,
    Listener,
    LookupProvider,
    ScriptedProvider,
    World,
    elapsed_s,
)

DAY_S = 24 * 3600.0
SECRET = "sk-test-abcdefghijklmnop0123"
V3 = Review(
    changelist_id="cl-7",
    review_version=3,
    recipients=(Recipient("ann@example.org"), Recipient("bob@example.org")),
)


class StageCode:
    """The code of one stage: raises what it is told to, in turn, and then makes its result."""

    def __init__(self, clock: ManualClock, name: str) -> None:
        self._clock = clock
        self._name = name
        self._errors: list[Exception] = []
        self.called_at_s: list[float] = []

    def fail_with(self, *errors: Exception) -> None:
        self._errors += errors

    async def __call__(self, work: Work) -> Done:
        self.called_at_s.append(elapsed_s(self._clock))
        if self._errors:
            raise self._errors.pop(0)
        return Done(result=f"{self._name} of {work.delivery.key}".encode())


def write(content: Content, address: str) -> bytes:
    return content.results["llm"] + b" for " + address.encode()


class Reviews(World):
    def __init__(
        self,
        clock: ManualClock,
        *script: Answer,
        provider: ScriptedProvider | None = None,
        rng: SeededRandom | None = None,
        **options: Any,
    ) -> None:
        self.mail = LookupProvider(clock, script)
        self.fetch, self.llm = StageCode(clock, "fetch"), StageCode(clock, "llm")
        self.listener = Listener("dead_letter", "page", "escalation")
        route = reviews_route(
            provider or self.mail, fetch=self.fetch, llm=self.llm, write=write, **options
        )
        super().__init__(route, clock, notifiers=[self.listener], rng=rng)

    async def review(self, key: str | None = "r1", **changes: Any) -> str:
        review = msgspec.structs.replace(V3, **changes)
        return (await self.submit(request_for(review, idempotency_key=key))).delivery_id

    async def rows(self, job_id: str) -> dict[str, Delivery]:
        page = await self.store.page(Query(parent_id=job_id))
        return {row.recipients[0].address: row for row in page.items}

    async def row_words(self, job_id: str) -> dict[str, str]:
        rows = await self.rows(job_id)
        return {address: self.route.word(row) for address, row in sorted(rows.items())}


def unavailable(times: int) -> Iterable[Exception]:
    return [Upstream(503) for _ in range(times)]


async def test_a_review_is_fetched_judged_and_told_to_each_recipient(clock: ManualClock) -> None:
    """C-030, R-011, R-022"""
    world = Reviews(clock)

    job_id = await world.review()
    await world.work()

    assert [envelope.recipients for envelope in world.mail.accepted] in (
        [("ann@example.org",), ("bob@example.org",)],
        [("bob@example.org",), ("ann@example.org",)],
    )
    assert {envelope.data for envelope in world.mail.accepted} == {
        b"llm of r1 for ann@example.org",
        b"llm of r1 for bob@example.org",
    }
    assert await world.word(job_id) == "succeeded"
    assert await world.row_words(job_id) == {"ann@example.org": "sent", "bob@example.org": "sent"}


async def test_rows_stand_before_the_first_send(clock: ManualClock) -> None:
    """R-010, R-015"""
    world = Reviews(clock)
    seen: list[dict[str, str]] = []
    job_id = await world.review()

    async def watch(envelope: Envelope) -> None:
        seen.append(await world.row_words(job_id))

    world.mail.watch = watch
    await world.work()

    assert seen[0] == {"ann@example.org": "unsent", "bob@example.org": "unsent"}
    assert sorted(seen[1].values()) == ["sent", "unsent"]
    for row in (await world.rows(job_id)).values():
        record = ROW_LAYOUT.record(await world.stored(row.id))
        assert record is not None
        assert record["notified_at"] == "2026-02-23T10:00:00.000Z"
        assert record["notification_id"].startswith("note-")


async def test_each_stage_has_five_attempts_of_its_own(clock: ManualClock) -> None:
    """C-031, C-032, C-034"""
    world = Reviews(clock, *["503"] * 4)
    world.fetch.fail_with(*unavailable(4))
    world.llm.fail_with(*unavailable(4))

    job_id = await world.review(recipients=(Recipient("ann@example.org"),))
    await world.work_for(DAY_S)

    # Every roll is a half: 0.5, 1, 2 and 4 s, in each stage anew.
    assert world.fetch.called_at_s == [0.0, 0.5, 1.5, 3.5, 7.5]
    assert world.llm.called_at_s == [7.5, 8.0, 9.0, 11.0, 15.0]
    assert world.mail.called_at_s == [15.0, 15.5, 16.5, 18.5, 22.5]
    assert await world.word(job_id) == "succeeded"


@pytest.mark.parametrize("stage", ["fetch", "llm"])
async def test_a_stage_out_of_budget_is_a_dead_letter_with_its_name(
    clock: ManualClock, stage: str
) -> None:
    """C-009, C-033, C-039"""
    world = Reviews(clock)
    code: StageCode = getattr(world, stage)
    code.fail_with(*[Upstream("internal_error") for _ in range(9)])

    job_id = await world.review()
    await world.work_for(DAY_S)

    letter = dead_letter(await world.stored(job_id))
    assert len(code.called_at_s) == 5
    assert (letter["stage"], letter["error_class"]) == (stage, "UPSTREAM_ERROR")
    assert letter["sanitized_context"]["attempts"] == 5
    assert letter["first_failure_at"] == "2026-02-23T10:00:00.000Z"
    assert letter["last_failure_at"] == "2026-02-23T10:00:07.500Z"
    assert world.listener.words() == ["dead_letter"]


async def test_a_smaller_budget_is_a_value(clock: ManualClock) -> None:
    """C-035"""
    retry = msgspec.structs.replace(RETRY, max_attempts=2)
    world = Reviews(clock, retry=retry)
    world.fetch.fail_with(*unavailable(9))

    await world.review()
    await world.work_for(DAY_S)

    assert len(world.fetch.called_at_s) == 2


def test_the_ceilings_double_to_a_minute() -> None:
    """C-021, C-022, C-023"""
    ceilings_s = [RETRY.schedule.ceiling_s(attempt) for attempt in range(2, 11)]

    assert ceilings_s == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_the_jitter_is_full_and_drawn_for_each_attempt() -> None:
    """C-024, C-025"""
    rng = SeededRandom(3)
    failure = Failure("NETWORK_TIMEOUT")

    delays_ms = [RETRY.delay_ms(3, failure, rng.roll()) for _ in range(10_000)]

    assert 0 <= min(delays_ms) < 20
    assert 1_980 < max(delays_ms) <= 2_000
    assert 975 < sum(delays_ms) / len(delays_ms) < 1_025


@pytest.mark.parametrize(
    ("code", "retry_after_s", "at_s"),
    [(429, 30.0, 30.0), (429, None, 0.5), (429, 3600.0, 300.0), (503, 20.0, 20.0), (429, 0.1, 0.5)],
)
async def test_retry_after_is_honoured_up_to_five_minutes(
    clock: ManualClock, code: int, retry_after_s: float | None, at_s: float
) -> None:
    """C-026, C-027, C-028"""
    world = Reviews(clock)
    world.fetch.fail_with(Upstream(code, retry_after_s=retry_after_s))

    await world.review()
    await world.work_for(DAY_S)

    assert world.fetch.called_at_s == [0.0, at_s]


RETRYABLE: list[tuple[Exception, str]] = [
    (socket.gaierror(-3, "temporary failure in name resolution"), "NETWORK_TIMEOUT"),
    (TimeoutError("socket"), "NETWORK_TIMEOUT"),
    (ConnectionResetError("peer"), "NETWORK_TIMEOUT"),
    (Upstream(502), "NETWORK_TIMEOUT"),
    (Upstream(503), "NETWORK_TIMEOUT"),
    (Upstream(504), "NETWORK_TIMEOUT"),
    (Upstream(429), "RATE_LIMITED"),
    (Upstream("rate_limit_exceeded"), "RATE_LIMITED"),
    (Upstream("quota_exceeded"), "RATE_LIMITED"),
    (Upstream("internal_error"), "UPSTREAM_ERROR"),
    (Upstream(500), "UPSTREAM_ERROR"),
    (Upstream(599), "UPSTREAM_ERROR"),
    (Upstream("version_conflict"), "WRITE_CONFLICT"),
    (Upstream("duplicate_write"), "WRITE_CONFLICT"),
]
FINAL: list[tuple[Exception, str]] = [
    (Upstream("missing_field"), "SCHEMA_INVALID"),
    (Upstream("malformed_json"), "SCHEMA_INVALID"),
    (msgspec.ValidationError("schema"), "SCHEMA_INVALID"),
    (Upstream("invalid_api_key"), "AUTH_DENIED"),
    (Upstream("expired_token"), "AUTH_DENIED"),
    (Upstream(403), "AUTH_DENIED"),
    (Upstream(404), "NOT_FOUND"),
    (Upstream("channel_deleted"), "NOT_FOUND"),
    (Upstream("moderation_blocked"), "POLICY_REJECTED"),
    (Upstream("policy_denied"), "POLICY_REJECTED"),
    (AttributeError("'NoneType' object has no attribute 'diff'"), "RUNTIME_BUG"),
    (AssertionError("invariant"), "RUNTIME_BUG"),
    (Upstream("never heard of"), "RUNTIME_BUG"),
]


@pytest.mark.parametrize(("error", "error_class"), RETRYABLE)
async def test_these_failures_are_tried_again(
    clock: ManualClock, error: Exception, error_class: str
) -> None:
    """C-003, C-007, C-010"""
    world = Reviews(clock)
    world.fetch.fail_with(error)

    job_id = await world.review()
    await world.work()
    record = JOB_LAYOUT.record(await world.stored(job_id))
    assert record is not None
    assert (record["status"], record["error_class"]) == ("retryable_failed", error_class)
    await world.work_for(DAY_S)

    assert len(world.fetch.called_at_s) == 2
    assert await world.word(job_id) == "succeeded"


@pytest.mark.parametrize(("error", "error_class"), FINAL)
async def test_these_failures_go_straight_to_the_dead_letters(
    clock: ManualClock, error: Exception, error_class: str
) -> None:
    """C-002, C-012, C-016"""
    world = Reviews(clock)
    world.fetch.fail_with(error)

    job_id = await world.review()
    await world.work_for(DAY_S)

    assert len(world.fetch.called_at_s) == 1
    assert dead_letter(await world.stored(job_id))["error_class"] == error_class
    paged = ["dead_letter", "page"] if error_class == "RUNTIME_BUG" else ["dead_letter"]
    assert world.listener.words() == paged


def test_every_failure_has_exactly_one_class() -> None:
    """C-001, C-036"""
    codes = [code for category in CATEGORIES for code in category.codes]
    names = [name for category in CATEGORIES for name in category.exceptions]

    assert len(codes) == len(set(codes))
    assert len(names) == len(set(names))
    assert {classify(error).disposition for error, _ in RETRYABLE} == {"retry"}
    assert {category_of_code(str(code)).disposition for code in range(400, 600)} == {
        "retry",
        "reject",
    }


async def test_an_unexpected_policy_reject_escalates(clock: ManualClock) -> None:
    """C-017"""
    world = Reviews(clock)
    world.llm.fail_with(Upstream("policy_unexpected"))

    await world.review()
    await world.work()

    assert world.listener.words() == ["dead_letter", "escalation"]


async def test_a_conflict_is_tried_again_only_where_that_does_no_harm(clock: ManualClock) -> None:
    """C-011, X-18"""
    world = Reviews(clock, not_idempotent=frozenset({"llm"}))
    world.fetch.fail_with(Upstream("version_conflict"))
    world.llm.fail_with(Upstream("version_conflict"))

    job_id = await world.review()
    await world.work_for(DAY_S)

    assert (len(world.fetch.called_at_s), len(world.llm.called_at_s)) == (2, 1)
    assert (await world.get(job_id)).failed_because == "rejected"


async def test_a_later_final_failure_stops_the_retries(clock: ManualClock) -> None:
    """C-029"""
    world = Reviews(clock)
    world.fetch.fail_with(Upstream(503), Upstream(403))

    job_id = await world.review()
    await world.work_for(DAY_S)

    assert len(world.fetch.called_at_s) == 2
    assert await world.word(job_id) == "retryable_failed"


async def test_a_dead_letter_holds_no_secret_and_no_person(clock: ManualClock) -> None:
    """C-038, C-040, C-043"""
    world = Reviews(clock)
    world.llm.fail_with(
        Upstream(403, f"key {SECRET} of ann@example.org, phone +49 170 1234567, refused")
    )

    request = request_for(V3, idempotency_key="r1")
    request = msgspec.structs.replace(request, metadata={"request_id": "req-9", "cookie": SECRET})
    job_id = (await world.submit(request)).delivery_id
    await world.work()

    stored = await world.stored(job_id)
    letter = dead_letter(stored)
    text = msgspec.json.encode(letter).decode()
    for canary in (SECRET, "ann@example.org", "bob@example.org", "1234567", "llm of"):
        assert canary not in text
    context = letter["sanitized_context"]
    assert context["request_ids"] == {"request_id": "req-9"}
    assert (context["stage"], context["attempts"], context["upstream_code"]) == ("llm", 1, "403")
    assert len(context["payload_sha256"]) == 12
    assert "Upstream" in letter["last_stack"]
    assert (await world.store.content(letter["payload_ref"])) == stored.content


async def test_a_replay_begins_at_the_failed_stage_with_a_new_budget(clock: ManualClock) -> None:
    """C-055, C-057, C-058"""
    world = Reviews(clock)
    world.llm.fail_with(*unavailable(9))
    job_id = await world.review()
    await world.work_for(DAY_S)

    await world.ops.replay(job_id, actor="ops", reason="INC-7: upstream is back")
    await world.work_for(DAY_S)

    assert (len(world.fetch.called_at_s), len(world.llm.called_at_s)) == (1, 10)
    assert await world.word(job_id) == "succeeded"


async def test_a_full_restart_is_asked_for(clock: ManualClock) -> None:
    """C-056"""
    world = Reviews(clock)
    world.llm.fail_with(Upstream(403))
    job_id = await world.review()
    await world.work()

    await world.ops.restart(job_id, actor="ops", reason="INC-7")
    await world.work()

    assert (len(world.fetch.called_at_s), len(world.llm.called_at_s)) == (2, 2)
    assert await world.word(job_id) == "succeeded"


@pytest.mark.parametrize(
    ("second", "escalated"),
    [(Upstream("missing_field"), True), (Upstream(403), False)],
)
async def test_the_same_final_class_after_a_replay_escalates(
    clock: ManualClock, second: Exception, escalated: bool
) -> None:
    """C-060, C-061"""
    world = Reviews(clock)
    world.fetch.fail_with(Upstream("malformed_json"), second)
    job_id = await world.review()
    await world.work()
    assert world.listener.words() == ["dead_letter"]

    await world.ops.replay(job_id, actor="ops", reason="INC-7: mapping corrected")
    await world.work()

    assert await world.word(job_id) == "retryable_failed"
    assert world.listener.words()[1:] == ["dead_letter", *["escalation"] * escalated]
    assert is_escalated(await world.get(job_id)) is escalated


async def test_a_replay_that_runs_out_of_budget_does_not_escalate(clock: ManualClock) -> None:
    """X-69"""
    world = Reviews(clock)
    world.fetch.fail_with(*unavailable(10))
    job_id = await world.review()
    await world.work_for(60)
    await world.ops.replay(job_id, actor="ops", reason="INC-7")
    await world.work_for(60)

    assert world.listener.words() == ["dead_letter", "dead_letter"]


async def test_a_job_blocked_again_by_another_class_does_not_escalate(clock: ManualClock) -> None:
    """C-061"""
    world = Reviews(clock)
    refused = {"ann@example.org": Failure("no_such_user", "reject", code="550")}
    world.mail.refused.update(refused)
    job_id = await world.review(recipients=(Recipient("ann@example.org"),))
    await world.work()
    world.mail.refused["ann@example.org"] = Failure("mailbox_closed", "reject", code="551")

    await world.ops.replay(job_id, actor="ops", reason="INC-7")
    await world.work()

    assert not is_escalated(await world.get(job_id))
    assert "escalation" not in world.listener.words()


async def test_a_corrected_payload_can_be_attached(clock: ManualClock) -> None:
    """C-049, C-045"""
    world = Reviews(clock)
    world.fetch.fail_with(Upstream("missing_field"))
    job_id = await world.review()
    await world.work()
    corrected = request_for(
        msgspec.structs.replace(V3, recipients=(Recipient("eve@example.org"),)),
        idempotency_key="r1",
    )
    payload = world.engine.admission.prepare(world.route, corrected).payload

    await world.ops.amend(job_id, payload, actor="ops", reason="INC-7")
    await world.ops.replay(job_id, actor="ops", reason="INC-7")
    await world.work()

    assert [envelope.recipients for envelope in world.mail.accepted] == [("eve@example.org",)]


async def test_a_closed_dead_letter_leaves_the_open_list_with_its_notes(
    clock: ManualClock,
) -> None:
    """C-059"""
    world = Reviews(clock)
    world.fetch.fail_with(Upstream(404))
    job_id = await world.review()
    await world.work()

    await world.ops.annotate(job_id, actor="ops", note="changelist was deleted")
    clock.advance(1)
    await world.ops.dismiss(job_id, actor="ops", reason="nothing to review")

    assert await world.word(job_id) == "resolved"
    assert await world.filtered("retryable_failed") == set()
    notes = [fact.value for fact in await world.ops.audit(job_id)]
    assert [(note or {})["reason"] for note in notes] == [
        "changelist was deleted",
        "nothing to review",
    ]


async def test_a_job_is_made_once_for_a_key_and_once_for_a_version(clock: ManualClock) -> None:
    """R-001, R-003, X-27"""
    world = Reviews(clock)
    with pytest.raises(InvalidRequest, match="key"):
        await world.review(key=None)

    first = await world.review()
    same_key = await world.review(recipients=(Recipient("eve@example.org"),))
    same_version = await world.review(key="r2")
    await world.work()

    assert {first, same_key, same_version} == {first}
    assert len(world.mail.accepted) == 2
    assert await world.review() == first
    await world.work()
    assert len(world.mail.accepted) == 2


async def test_a_new_version_tells_everybody_again(clock: ManualClock) -> None:
    """R-008, R-009, R-025"""
    world = Reviews(clock)
    third = await world.review()
    await world.work()
    before = await world.rows(third)

    fourth = await world.review(key="rerun", review_version=4)
    await world.work()

    assert fourth != third
    assert len(world.mail.accepted) == 4
    assert await world.rows(third) == before
    assert len({envelope.token for envelope in world.mail.accepted}) == 4


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("changelist_id", ""),
        ("review_version", 0),
        ("recipients", ()),
        ("recipients", (Recipient("ann@example.org", required=False),)),
    ],
)
async def test_a_job_that_could_never_succeed_is_refused(
    clock: ManualClock, field: str, value: Any
) -> None:
    """R-022"""
    with pytest.raises(InvalidRequest, match=field):
        await Reviews(clock).review(**{field: value})


async def test_one_listed_twice_is_told_once(clock: ManualClock) -> None:
    """R-012, R-014"""
    world = Reviews(clock)
    twice = (Recipient("ann@example.org"), Recipient("ann@example.org"))

    job_id = await world.review(recipients=twice)
    await world.work()

    assert len(world.mail.accepted) == 1
    assert await world.row_words(job_id) == {"ann@example.org": "sent"}


async def test_the_token_and_the_bytes_are_the_same_for_every_try(clock: ManualClock) -> None:
    """R-016, R-017, R-026"""
    world = Reviews(clock, "503", "503")

    job_id = await world.review(recipients=(Recipient("ann@example.org"),))
    await world.work_for(60)

    assert len({(envelope.token, envelope.data) for envelope in world.mail.calls}) == 1
    [row] = (await world.rows(job_id)).values()
    attempts = await world.store.attempts(row.id)
    assert [attempt.status for attempt in attempts] == ["failed", "failed", "done"]


async def test_a_recipient_refused_for_good_blocks_the_job_and_nobody_else(
    clock: ManualClock,
) -> None:
    """R-028, R-029, X-44"""
    world = Reviews(clock)
    world.mail.refused["bob@example.org"] = Failure("no_such_user", "reject", code="550")
    job_id = await world.review()
    await world.work_for(DAY_S)

    assert await world.row_words(job_id) == {"ann@example.org": "sent", "bob@example.org": "failed"}
    record = JOB_LAYOUT.record(await world.stored(job_id))
    assert record is not None
    assert [record[name] for name in ("status", "blocked", "stage", "error_class")] == [
        "retryable_failed",
        True,
        "notify",
        "RECIPIENTS_FAILED",
    ]
    assert len(world.mail.calls) == 2

    world.mail.refused.clear()
    await world.ops.replay(job_id, actor="ops", reason="INC-7: mailbox exists now")
    await world.work()
    assert len(world.mail.calls) == 3
    assert (len(world.fetch.called_at_s), len(world.llm.called_at_s)) == (1, 1)
    assert await world.word(job_id) == "succeeded"


async def test_replaying_a_failed_row_completes_its_job(clock: ManualClock) -> None:
    """R-022, R-029"""
    world = Reviews(clock, "550")
    job_id = await world.review()
    await world.work()
    [failed] = [row for row in (await world.rows(job_id)).values() if row.state == "failed"]

    await world.ops.replay(failed.id, actor="ops", reason="INC-7")
    await world.work()

    assert await world.word(job_id) == "succeeded"


async def test_a_dismissed_row_is_no_notification(clock: ManualClock) -> None:
    """R-022, X-44"""
    world = Reviews(clock, "550")
    job_id = await world.review(recipients=(Recipient("ann@example.org"),))
    await world.work()
    [row] = (await world.rows(job_id)).values()

    await world.ops.dismiss(row.id, actor="ops", reason="has left")
    await world.ops.replay(job_id, actor="ops", reason="INC-7")
    await world.work()

    assert await world.word(job_id) == "retryable_failed"


async def test_an_optional_recipient_does_not_hold_back_success(clock: ManualClock) -> None:
    """R-023"""
    world = Reviews(clock)
    people = (Recipient("ann@example.org"), Recipient("list@example.org", required=False))
    world.mail.refused["list@example.org"] = Failure("no_such_user", "reject", code="550")

    job_id = await world.review(recipients=people)
    await world.work()

    assert await world.word(job_id) == "succeeded"
    assert await world.row_words(job_id) == {
        "ann@example.org": "sent",
        "list@example.org": "failed",
    }


async def test_a_suppressed_recipient_has_not_been_told(clock: ManualClock) -> None:
    """R-022, R-028"""
    world = Reviews(clock, "suppress")

    job_id = await world.review(recipients=(Recipient("ann@example.org"),))
    await world.work()

    assert await world.word(job_id) == "retryable_failed"
    assert await world.row_words(job_id) == {"ann@example.org": "failed"}


async def test_a_lost_answer_is_looked_up_and_not_sent_again(clock: ManualClock) -> None:
    """R-030, R-031, R-041"""
    world = Reviews(clock, "maybe")

    job_id = await world.review(recipients=(Recipient("ann@example.org"),))
    await world.work()
    [row] = (await world.rows(job_id)).values()
    record = ROW_LAYOUT.record(await world.stored(row.id))
    assert record is not None
    assert (record["status"], record["reconciling"]) == ("unsent", True)
    await world.work_for(60)

    assert len(world.mail.accepted) == 1
    assert world.mail.looked_up == [world.mail.accepted[0].token]
    record = ROW_LAYOUT.record(await world.stored(row.id))
    assert record is not None
    assert [record[name] for name in ("status", "notification_id", "reconciling")] == [
        "sent",
        "note-1",
        False,
    ]
    assert await world.word(job_id) == "succeeded"


@pytest.mark.parametrize(
    ("at", "looked_up"), [("before the mark", 0), ("before the send", 1), ("after the send", 1)]
)
async def test_a_crash_is_looked_up_first_if_anything_can_have_been_sent(
    clock: ManualClock, at: CrashPoint, looked_up: int
) -> None:
    """R-020, R-040, X-39"""
    world = Reviews(clock)
    job_id = await world.review(recipients=(Recipient("ann@example.org"),))

    await world.work_and_crash(at, world.mail)
    await world.work_for(SEND_TIMEOUT_S + 60)  # until its lease has ended

    assert len(world.mail.accepted) == 1
    assert len(world.mail.looked_up) == looked_up
    assert await world.word(job_id) == "succeeded"


async def test_a_row_is_not_called_failed_before_somebody_looked(clock: ManualClock) -> None:
    """R-032"""
    world = Reviews(clock, *["503"] * 4, "maybe")

    job_id = await world.review(recipients=(Recipient("ann@example.org"),))
    await world.work_for(60)

    assert len(world.mail.looked_up) == 1
    assert await world.word(job_id) == "succeeded"


async def test_without_evidence_it_is_held_for_an_operator(clock: ManualClock) -> None:
    """R-033, R-043, X-42"""
    blind = ScriptedProvider(clock, ["maybe"])
    world = Reviews(clock, provider=blind)
    job_id = await world.review(recipients=(Recipient("ann@example.org"),))
    await world.work_for(DAY_S)

    [row] = (await world.rows(job_id)).values()
    assert (row.failed_because, len(blind.calls)) == ("uncertain", 1)
    assert await world.word(job_id) == "retryable_failed"
    await world.ops.confirm(row.id, actor="ops", reason="INC-7", evidence="seen in the inbox")
    assert await world.row_words(job_id) == {"ann@example.org": "sent"}
    await world.work()
    assert await world.word(job_id) == "succeeded"
    assert len(blind.calls) == 1


async def test_a_provider_that_cannot_tell_yet_is_asked_again_before_holding(
    clock: ManualClock,
) -> None:
    """R-021, R-039"""
    world = Reviews(clock, "maybe")
    world.mail.knows = False
    job_id = await world.review(recipients=(Recipient("ann@example.org"),))
    await world.work_for(300)
    assert len(world.mail.calls) == 1
    assert len(world.mail.looked_up) > 5

    world.mail.knows = True
    await world.work_for(60)

    assert await world.word(job_id) == "succeeded"
    assert len(world.mail.calls) == 1


async def test_the_job_words_follow_its_work(clock: ManualClock) -> None:
    """R-024, X-45"""
    world = Reviews(clock, "550")
    world.fetch.fail_with(Upstream(503))
    seen: list[str] = []
    job_id = await world.review()
    seen.append(await world.word(job_id))
    await world.work()
    seen.append(await world.word(job_id))
    await world.check_filters()

    async def watch(envelope: Envelope) -> None:
        seen.append(await world.word(job_id))
        await world.check_filters()

    world.mail.watch = watch
    await world.work_for(60)
    seen.append(await world.word(job_id))
    await world.check_filters()

    assert seen == [
        "in_progress",
        "retryable_failed",
        "in_progress",
        "in_progress",
        "retryable_failed",
    ]
    assert set(LABELS.words()) == {
        "in_progress",
        "retryable_failed",
        "succeeded",
        "resolved",
        "unsent",
        "sent",
        "failed",
    }


async def test_other_verbs_are_not_offered(clock: ManualClock) -> None:
    """R-007, X-63"""
    world = Reviews(clock)
    job_id = await world.review()
    await world.work()

    for verb in ("resend", "cancel"):
        with pytest.raises(NotAllowed, match=f"does not offer {verb}"):
            await getattr(world.ops, verb)(job_id, actor="ops", reason="now")
    with pytest.raises(NotAllowed, match="it is delivered"):
        await world.ops.replay(job_id, actor="ops", reason="now")


async def test_a_job_is_retryable_while_a_recipient_waits_for_a_retry(clock: ManualClock) -> None:
    """R-024"""
    world = Reviews(clock, "503")
    job_id = await world.review(recipients=(Recipient("ann@example.org"),))

    await world.work()
    assert (await world.get(job_id)).state == "waiting"
    assert await world.word(job_id) == "retryable_failed"
    await world.check_filters()

    await world.work_for(60)
    assert await world.word(job_id) == "succeeded"
