"""The mail service (004): render, four attempts, its words, resend by clone, retention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from email.parser import BytesParser
from typing import Any, get_args

import msgspec
import pytest

from homing.content.templates import Rendered
from homing.domain.delivery import Attempt, AttemptStatus, Receipt
from homing.domain.errors import IdempotencyConflict, InvalidRequest, NotAllowed, NotFound
from homing.domain.failure import Failure, Refusal
from homing.domain.message import Attachment, Email
from homing.engine.intake.admission import Request
from homing.engine.ops.verbs import ALL_VERBS
from homing.ports import Accepted, Envelope, Query
from homing.stores.memory import MemoryStore
from homing.testing.clocks import ManualClock
from homing_systems.mail.login_codes import login_code_request
from homing_systems.mail.record import LAYOUT, attempt_record, attempt_word
from homing_systems.mail.route import MailRules, mail_route
from tests.conformance.world import Answer, ScriptedProvider, World

DAY_S = 24 * 3600.0
WORDS = ("queued", "rendered", "sending", "sent", "suppressed", "failed", "dead_letter")
CODE = "493817"


class Templates:
    """A catalog of one template, which can be missing or broken, and counts its renderings."""

    def __init__(self) -> None:
        self.rendered = 0
        self.watch: Callable[[], None] | None = None
        self.text = "Your code is {code}"

    def render(
        self, template_id: str, locale: str | None, variables: Mapping[str, Any]
    ) -> Rendered | Failure:
        if template_id == "broken":
            raise ZeroDivisionError(f"while rendering {variables}")
        if template_id == "slow":
            return Failure("template_too_slow", "retry")
        if template_id != "auth.login_code":
            return Failure("template_not_found", "reject", detail=f"no {template_id}")
        self.rendered += 1
        if self.watch is not None:
            self.watch()
        text = self.text.format_map(variables)
        return Rendered("Log in", text, locale="en", locale_fallback_used=locale != "en")


class Mail(World):
    def __init__(
        self,
        clock: ManualClock,
        *script: Answer,
        stub_mode: bool = False,
        store: MemoryStore | None = None,
    ) -> None:
        self.smtp = ScriptedProvider(clock, script)
        self.templates = Templates()
        rules = MailRules(sender="Galaxy <no-reply@galaxy.example>", stub_mode=stub_mode)
        super().__init__(mail_route(self.smtp, self.templates.render, rules), clock, store=store)

    async def log_in(
        self, *, email: str = "ann@example.org", locale: str = "en", key: str = "k1"
    ) -> str:
        request = login_code_request(email=email, code=CODE, locale=locale, key=key)
        return (await self.submit(request)).delivery_id

    async def notify(self, *, key: str = "n1", **fields: Any) -> str:
        email = Email(**{"to": "ann@example.org", "subject": "Hi", "text": "Hello", **fields})
        request = Request(message=email, source="notification", key=key)
        return (await self.submit(request)).delivery_id

    async def attempt_words(self, delivery_id: str) -> list[str]:
        return [attempt_word(attempt) for attempt in await self.ops.attempts(delivery_id)]


async def test_the_ladder_has_four_attempts(clock: ManualClock) -> None:
    """M-182, M-184, M-185"""
    world = Mail(clock, *["451"] * 9)

    delivery_id = await world.notify()
    await world.work_for(2 * DAY_S)

    assert world.smtp.called_at_s == [0.0, 60.0, 360.0, 2160.0]
    assert await world.word(delivery_id) == "dead_letter"
    assert await world.attempt_words(delivery_id) == ["transport_failed"] * 4


async def test_a_failed_attempt_schedules_the_next_number(clock: ManualClock) -> None:
    """M-120, M-133, M-186"""
    world = Mail(clock, Failure("timed_out"), "421")

    delivery_id = await world.notify()
    [first] = await world.ops.attempts(delivery_id)
    assert (first.number, attempt_word(first), first.scheduled_for_ms) == (
        1,
        "scheduled",
        clock.now_ms(),
    )
    await world.work()

    ended, scheduled = await world.ops.attempts(delivery_id)
    assert (attempt_word(ended), attempt_word(scheduled)) == ("timed_out", "scheduled")
    assert (scheduled.number, scheduled.scheduled_for_ms) == (2, clock.now_ms() + 60_000)
    assert await world.word(delivery_id) == "queued"


async def test_a_template_mail_is_queued_rendered_sending_sent(clock: ManualClock) -> None:
    """M-121, M-129, M-130"""
    world = Mail(clock)
    delivery_id = await world.log_in()
    assert await world.word(delivery_id) == "queued"
    while_rendering: list[str] = []
    world.templates.watch = lambda: while_rendering.append(
        world.route.word(world.store.disk.deliveries[delivery_id])
    )

    await world.work()

    assert while_rendering == ["queued"]
    assert world.story.told == [
        ("accept", "queued"),
        ("advance", "rendered"),
        ("mark_committing", "sending"),
        ("succeed", "sent"),
    ]
    assert await world.attempt_words(delivery_id) == ["provider_accepted"]


async def test_a_rendered_mail_never_shows_rendered(clock: ManualClock) -> None:
    """M-129"""
    world = Mail(clock, "451")
    seen: list[str] = []

    async def watch(envelope: Envelope) -> None:
        seen.append(await world.word(envelope.delivery_id))

    world.smtp.watch = watch
    delivery_id = await world.notify()
    seen.append(await world.word(delivery_id))
    await world.work()
    seen.append(await world.word(delivery_id))
    await world.work_after(60)
    seen.append(await world.word(delivery_id))

    assert seen == ["queued", "sending", "queued", "sending", "sent"]


async def test_a_template_is_rendered_once_and_its_bytes_stay(clock: ManualClock) -> None:
    """X-59, X-61, M-007"""
    world = Mail(clock, "451", "451")

    delivery_id = await world.log_in()
    await world.work()
    assert await world.word(delivery_id) == "queued"
    world.templates.text = "changed after a restart"
    await world.work_for(360)

    assert world.templates.rendered == 1
    assert len({envelope.data for envelope in world.smtp.calls}) == 1
    assert f"Your code is {CODE}".encode() in world.smtp.accepted[0].data


@pytest.mark.parametrize("template_id", ["no.such", "broken", "slow"])
async def test_a_render_failure_is_final_and_reaches_no_provider(
    clock: ManualClock, template_id: str
) -> None:
    """M-135, M-150, M-188"""
    world = Mail(clock)

    request = Request(
        message=Email(to="ann@example.org", template_id=template_id, variables={"code": CODE}),
        source="notification",
        key="n1",
    )
    delivery_id = (await world.submit(request)).delivery_id
    await world.work_for(DAY_S)

    assert world.smtp.calls == []
    assert await world.word(delivery_id) == "failed"
    assert await world.attempt_words(delivery_id) == ["render_failed"]
    [attempt] = await world.store.attempts(delivery_id)
    assert CODE not in str(attempt)


@pytest.mark.parametrize(
    ("answer", "attempt", "status"),
    [
        ("250", "provider_accepted", "sent"),
        ("suppress", "provider_rejected", "suppressed"),
        ("550", "provider_rejected", "failed"),
        (Failure("no_starttls", "route_fault"), "provider_rejected", "failed"),
        ("535", "provider_rejected", "failed"),
        ("451", "transport_failed", "queued"),
        (Failure("timed_out"), "timed_out", "queued"),
        (RuntimeError("surprise"), "transport_failed", "queued"),
    ],
)
async def test_each_answer_gives_its_attempt_and_status(
    clock: ManualClock, answer: Answer, attempt: str, status: str
) -> None:
    """M-131, M-138, M-180"""
    world = Mail(clock, answer)

    delivery_id = await world.notify()
    await world.work()

    assert (await world.attempt_words(delivery_id))[0] == attempt
    assert await world.word(delivery_id) == status


async def test_a_partly_refused_envelope_is_failed_and_its_attempt_rejected(
    clock: ManualClock,
) -> None:
    """M-136, M-138"""
    refused = {"bob@example.org": Refusal(permanent=True, code="550")}
    world = Mail(clock, Accepted(Receipt("note-1"), refused))

    delivery_id = await world.notify(to=("ann@example.org", "bob@example.org"))
    await world.work()

    assert await world.word(delivery_id) == "failed"
    assert await world.attempt_words(delivery_id) == ["provider_rejected"]
    delivery = await world.get(delivery_id)
    assert [recipient.outcome for recipient in delivery.recipients] == ["accepted", "refused"]


def test_every_attempt_status_has_one_of_the_seven_words() -> None:
    """M-132"""
    words = {
        attempt_word(Attempt(delivery_id="d", number=1, stage=stage, status=status))
        for stage in ("render", "send")
        for status in get_args(AttemptStatus)
    }

    assert words == {
        "scheduled",
        "in_progress",
        "render_failed",
        "provider_accepted",
        "provider_rejected",
        "transport_failed",
        "timed_out",
    }


async def test_a_stale_claim_is_recovered_after_the_timeout_and_thirty_seconds(
    clock: ManualClock,
) -> None:
    """M-189, X-51"""
    world = Mail(clock)
    assert world.route.lease_s == 45.0
    delivery_id = await world.notify()

    await world.die_working()
    assert await world.word(delivery_id) == "sending"
    assert await world.work_after(44.999) == 0
    assert await world.work_after(0.001) == 1

    [stale] = await world.store.attempts(delivery_id)
    assert attempt_record(stale) | {"started_at_ms": 0, "finished_at_ms": 0} == {
        "delivery_id": delivery_id,
        "attempt_no": 1,
        "status": "timed_out",
        "scheduled_for_ms": None,
        "started_at_ms": 0,
        "finished_at_ms": 0,
        "provider_code": None,
        "error_class": "interrupted",
        "detail": "stale_claim",
    }
    assert await world.word(delivery_id) == "queued"
    await world.work_for(DAY_S)
    assert world.smtp.called_at_s == [105.0]


@pytest.mark.parametrize("after_mark", [False, True])
async def test_a_worker_that_dies_four_times_leaves_a_dead_letter(
    clock: ManualClock, after_mark: bool
) -> None:
    """M-190"""
    world = Mail(clock)
    delivery_id = await world.notify()

    for wait_s in (60, 300, 1800, 0):
        await world.die_working(after_mark=after_mark)
        await world.work_after(45)
        clock.advance(wait_s)

    assert await world.word(delivery_id) == "dead_letter"
    assert await world.attempt_words(delivery_id) == ["timed_out"] * 4
    assert world.smtp.calls == []


async def test_what_may_have_been_sent_is_sent_again_under_the_same_message_id(
    clock: ManualClock,
) -> None:
    """X-51, X-42"""
    world = Mail(clock, "maybe")

    delivery_id = await world.notify()
    await world.work_for(60)

    first, second = world.smtp.accepted
    assert first.data == second.data
    assert (await world.get(delivery_id)).maybe_duplicate


async def test_the_same_request_gives_the_same_delivery(clock: ManualClock) -> None:
    """M-074, M-076, X-31"""
    world = Mail(clock)

    first = await world.log_in(email="Ann@Example.org", locale="en-us")
    again = await world.log_in(email=" Ann@eXample.ORG ", locale="en-US")

    assert first == again
    assert sum((await world.store.count(Query())).values()) == 1


@pytest.mark.parametrize(
    "change", [{"email": "bob@example.org"}, {"locale": "de"}, {"email": "ANN@example.org"}]
)
async def test_another_request_on_the_same_key_is_a_conflict(
    clock: ManualClock, change: dict[str, str]
) -> None:
    """M-075"""
    world = Mail(clock)
    await world.log_in()

    with pytest.raises(IdempotencyConflict):
        await world.log_in(**change)


async def test_observability_ids_are_not_part_of_the_request(clock: ManualClock) -> None:
    """M-083, X-29"""
    world = Mail(clock)
    email = Email(to="ann@example.org", subject="Hi", text="Hello")

    tickets = [
        await world.submit(
            Request(
                message=email,
                source="notification",
                key="n1",
                delivery_id=f"producer-{number}",
                metadata={"request_id": str(number), "trace_id": "t"},
            )
        )
        for number in range(2)
    ]

    assert [ticket.delivery_id for ticket in tickets] == ["producer-0", "producer-0"]


async def test_a_key_is_needed_and_free_again_after_seven_days(clock: ManualClock) -> None:
    """M-067, M-173, X-26"""
    world = Mail(clock)
    email = Email(to="ann@example.org", subject="Hi", text="Hello")
    with pytest.raises(InvalidRequest, match="key"):
        await world.submit(Request(message=email, source="notification"))

    first = await world.notify()
    await world.work()
    clock.advance(7 * DAY_S - 0.001)
    assert await world.notify() == first
    clock.advance(0.001)

    assert await world.notify(subject="Other") != first


async def test_in_stub_mode_a_login_code_is_suppressed_without_an_attempt(
    clock: ManualClock,
) -> None:
    """M-073, M-128, X-62"""
    world = Mail(clock, stub_mode=True)

    login, other = await world.log_in(), await world.notify()
    assert await world.word(login) == "suppressed"
    assert await world.word(other) == "queued"
    await world.work_for(DAY_S)

    assert await world.ops.attempts(login) == []
    assert await world.word(other) == "sent"
    assert len(world.smtp.calls) == 1


async def test_a_repeat_after_a_switch_of_mode_has_the_first_outcome(clock: ManualClock) -> None:
    """M-074"""
    before = Mail(clock, stub_mode=True)
    first = await before.log_in()

    after = Mail(clock, store=before.store)

    assert await after.log_in() == first
    assert await after.word(first) == "suppressed"


@pytest.mark.parametrize(
    ("script", "word"),
    [([], "sent"), (["suppress"], "suppressed"), (["550"], "failed"), (["451"] * 4, "dead_letter")],
)
async def test_resend_makes_a_clone_of_what_has_ended(
    clock: ManualClock, script: list[str], word: str
) -> None:
    """M-108, M-110, M-111"""
    world = Mail(clock, *script)
    original_id = await world.notify()
    await world.work_for(DAY_S)
    assert await world.word(original_id) == word
    before = await world.stored(original_id)

    clone = await world.ops.resend(original_id, actor="ops", reason="asked for")
    assert world.route.word(clone) == "queued"
    assert [a.number for a in await world.ops.attempts(clone.id)] == [1]
    await world.work()

    assert await world.stored(original_id) == before
    assert (clone.source, clone.clone_of) == ("operator_resend", original_id)
    assert clone.key == f"resend:{original_id}:1"
    assert await world.word(clone.id) == "sent"
    assert [a.number for a in await world.store.attempts(clone.id)] == [1]


async def test_a_clone_of_a_template_mail_sends_what_its_original_has_sent(
    clock: ManualClock,
) -> None:
    """M-112, M-128"""
    world = Mail(clock)
    original_id = await world.log_in()
    await world.work()
    world.templates.text = "Another text for {code}"

    clone = await world.ops.resend(original_id, actor="ops", reason="asked for")
    assert world.route.word(clone) == "queued"
    await world.work()

    first, second = (BytesParser().parsebytes(sent.data) for sent in world.smtp.accepted)
    assert first.get_payload() == second.get_payload() == f"Your code is {CODE}\r\n"
    assert first["Message-ID"] != second["Message-ID"]
    assert world.templates.rendered == 1
    assert LAYOUT.record(await world.stored(clone.id)) is not None


async def test_resend_is_refused_before_the_end(clock: ManualClock) -> None:
    """M-109"""
    world = Mail(clock)
    queued = await world.notify()
    with pytest.raises(NotAllowed, match="it is pending"):
        await world.ops.resend(queued, actor="ops", reason="now")
    await world.die_working()
    with pytest.raises(NotAllowed, match="it is in_flight"):
        await world.ops.resend(queued, actor="ops", reason="now")


async def test_no_other_verb_is_offered(clock: ManualClock) -> None:
    """M-010, X-63"""
    world = Mail(clock, "550")
    failed = await world.notify()
    await world.work()

    assert world.route.verbs == {"resend"}
    for verb in ALL_VERBS - {"resend", "confirm", "amend", "annotate"}:
        with pytest.raises(NotAllowed, match=f"does not offer {verb}"):
            await getattr(world.ops, verb)(failed, actor="ops", reason="now")


async def test_retention_is_7_30_30_90_and_90_days(clock: ManualClock) -> None:
    """M-174, M-175, M-113"""
    world = Mail(clock, "550", *["451"] * 4)
    dead = await world.notify(key="dead")
    clock.advance(0.001)
    lost = await world.notify(key="lost")
    await world.work()
    await world.work_for(DAY_S)
    sent = await world.notify(key="sent")
    await world.work()

    await keep_house_after(world, 30 * DAY_S - 1)
    assert await world.word(sent) == "sent"
    await keep_house_after(world, 2)
    with pytest.raises(NotFound):
        await world.get(sent)
    assert len(await world.ops.attempts(sent)) == 1
    for dead_letter in (dead, lost):
        with pytest.raises(NotAllowed, match="payload is gone"):
            await world.ops.resend(dead_letter, actor="ops", reason="too late")
        assert LAYOUT.record(await world.stored(dead_letter)) is not None
    await keep_house_after(world, 59 * DAY_S)
    await world.get(lost)
    await keep_house_after(world, 2 * DAY_S)
    for delivery_id in (dead, lost, sent):
        with pytest.raises(NotFound):
            await world.ops.attempts(delivery_id)


async def keep_house_after(world: Mail, wait_s: float) -> None:
    world.clock.advance(wait_s)
    await world.engine.housekeeping.purge()


async def test_an_active_delivery_outlives_every_retention(clock: ManualClock) -> None:
    """M-178"""
    world = Mail(clock, "451")
    delivery_id = await world.notify()
    await world.work()

    await keep_house_after(world, 400 * DAY_S)

    assert await world.word(delivery_id) == "queued"
    await world.work()
    assert await world.word(delivery_id) == "sent"


async def test_the_login_code_is_masked_in_the_record(clock: ManualClock) -> None:
    """M-077, M-078, M-147"""
    world = Mail(clock)
    delivery_id = await world.log_in(locale="fr-ca")
    await world.work()

    record = LAYOUT.record(await world.stored(delivery_id))

    assert record is not None
    assert CODE not in msgspec.json.encode(record).decode()
    assert [record[name] for name in ("source", "payload_mode", "template_id", "locale")] == [
        "authsession",
        "template",
        "auth.login_code",
        "fr-CA",
    ]
    assert record["locale_fallback_used"] is True


async def test_attachments_are_only_named_in_the_record(clock: ManualClock) -> None:
    """M-115, M-118"""
    world = Mail(clock)
    attachment = Attachment("bill.txt", b"secret sums", "text/plain")
    delivery_id = await world.notify(attachments=(attachment,))

    record = LAYOUT.record(await world.stored(delivery_id))

    assert record is not None
    assert record["attachments"] == [
        {"filename": "bill.txt", "content_type": "text/plain", "size_bytes": 11}
    ]
    assert b"secret" not in msgspec.json.encode(record)


async def test_a_filter_by_a_word_finds_what_shows_it(clock: ManualClock) -> None:
    """M-096, M-119, M-162"""
    world = Mail(clock, "550", "suppress", "250", *["451"] * 4)
    for number in range(4):
        await world.notify(key=f"n{number}")
        await world.work()
    await world.work_for(DAY_S)
    world.smtp.answer("451")
    await world.notify(key="put off")
    await world.work()
    await world.log_in()
    clock.advance(0.001)
    await world.notify(key="running")
    shown: list[dict[str, set[str]]] = []

    async def watch(envelope: Envelope) -> None:
        await world.check_filters()
        shown.append(await world.shown())

    world.smtp.watch = watch
    # One claim takes both: the first is rendered and waits while the second is sent.
    await world.work()

    assert LAYOUT.words == WORDS
    assert {word: len(ids) for word, ids in shown[0].items()} == dict.fromkeys(WORDS, 1)
