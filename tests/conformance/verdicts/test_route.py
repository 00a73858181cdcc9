"""Verdict mails (000): the fixed ladder, the Graph table, the words, and what an end owes."""

from __future__ import annotations

import random
import uuid

import msgspec
import pytest
from msgspec.structs import replace

from homing.domain.delivery import Content, Delivery
from homing.domain.errors import InvalidRequest, NotAllowed, SettingsError
from homing.domain.failure import Failure
from homing.domain.policy import Plan
from homing.engine.intake.admission import Request
from homing.ports import Envelope
from homing.testing.clocks import ManualClock
from homing_systems.verdicts.graph_answers import GRAPH_ANSWERS, graph_answer
from homing_systems.verdicts.lines import alert_line, delivery_log_line
from homing_systems.verdicts.record import LAYOUT, dead_letter_record
from homing_systems.verdicts.route import DUPLICATE_NOTICE, verdict_plan, verdicts_route
from homing_systems.verdicts.verdict import Verdict, request_for, variables_of
from tests.conformance.world import START_MS, Answer, Listener, ScriptedProvider, World

DAY_S = 24 * 3600.0
ODD_JSON = '{"b": 1.0,  "a": "\\u00e9 \\"q\\"", "n": 12345678901234567890, "deep": {"x": [null]}}'
PAID = Verdict(
    session_id="cs_1",
    customer_email="ann@example.org",
    tier="full",
    query='Ist "das" gut? ✓',
    verdict=ODD_JSON,
    payment_status="paid",
)


def compose(delivery: Delivery, content: Content) -> bytes:
    notice = f"\n\n{DUPLICATE_NOTICE}" if delivery.maybe_duplicate else ""
    return (variables_of(content.payload)["verdict"] + notice).encode()


def requested(verdict: Verdict) -> Request:
    return request_for(verdict, retry_id=str(uuid.uuid4()))


class Verdicts(World):
    """The route with a scripted Graph and a delivery log that the test can write to."""

    def __init__(
        self,
        clock: ManualClock,
        *script: Answer,
        plan: Plan | None = None,
        replay: bool = False,
    ) -> None:
        self.graph = ScriptedProvider(clock, script)
        self.logged: set[str] = set()
        self.listener = Listener("dead_letter", "alert", "token_alert", "delivery_log")
        route = verdicts_route(
            self.graph, compose, is_logged=self._is_logged, plan=plan, allow_replay=replay
        )
        super().__init__(route, clock, notifiers=[self.listener])

    async def _is_logged(self, session_id: str) -> bool:
        return session_id in self.logged

    async def deliver(self, verdict: Verdict = PAID) -> str:
        return (await self.send(requested(verdict))).delivery_id


async def test_a_healthy_send_is_one_call_and_one_log_line(clock: ManualClock) -> None:
    """O-023, O-042, O-049"""
    world = Verdicts(clock, "202")

    delivery_id = await world.deliver()
    await world.work()

    assert len(world.graph.calls) == 1
    assert await world.word(delivery_id) == "DELIVERED"
    assert world.listener.words() == ["delivery_log"]
    [(_, delivery)] = world.listener.heard
    assert delivery_log_line(delivery) == (
        "2026-02-23T10:00:00.000Z DELIVERED session=cs_1 to=ann@example.org tier=full attempt=0"
    )


async def test_four_counted_retries_follow_the_inline_call_on_a_fixed_ladder(
    clock: ManualClock,
) -> None:
    """O-053, O-057, X-01"""
    world = Verdicts(clock, *["503"] * 9)

    delivery_id = await world.deliver()
    await world.work_for(2 * DAY_S)

    assert world.graph.called_at_s == [0.0, 0.0, 300.0, 2100.0, 9300.0]
    delivery = await world.get(delivery_id)
    assert (delivery.attempts_spent, delivery.failed_because) == (4, "exhausted")


async def test_where_the_inline_call_counts_there_are_four_calls_in_all(
    clock: ManualClock,
) -> None:
    """X-01: the same ladder under a harness that counts calls."""
    world = Verdicts(clock, *["503"] * 9, plan=verdict_plan(inline_counts=True))

    await world.deliver()
    await world.work_for(2 * DAY_S)

    assert world.graph.called_at_s == [0.0, 300.0, 2100.0, 9300.0]


async def test_the_third_attempt_may_succeed(clock: ManualClock) -> None:
    """O-081, O-083, O-084"""
    world = Verdicts(clock, "503", "503", "503", "202")

    delivery_id = await world.deliver()
    await world.work_for(DAY_S)

    assert world.graph.called_at_s == [0.0, 0.0, 300.0, 2100.0]
    assert delivery_log_line(await world.get(delivery_id)).endswith("attempt=3")
    assert delivery_log_line(await world.get(delivery_id)).startswith("2026-02-23T10:35:00.000Z")


@pytest.mark.parametrize(
    ("max_attempts", "at_s"),
    [
        (1, [0.0, 0.0]),
        (2, [0.0, 0.0, 300.0]),
        (6, [0.0, 0.0, 300.0, 2100.0, 9300.0, 16500.0, 23700.0]),
    ],
)
async def test_the_attempt_limit_cuts_the_ladder_or_repeats_its_last_step(
    clock: ManualClock, max_attempts: int, at_s: list[float]
) -> None:
    """O-039, X-07"""
    world = Verdicts(clock, *["503"] * 9, plan=verdict_plan(max_attempts))

    delivery_id = await world.deliver()
    await world.work_for(2 * DAY_S)

    assert world.graph.called_at_s == at_s
    assert await world.word(delivery_id) == "DEAD"


@pytest.mark.parametrize("max_attempts", [0, -1])
def test_an_attempt_limit_below_one_stops_the_start(max_attempts: int) -> None:
    """X-07"""
    with pytest.raises(SettingsError, match="EMAIL_RETRY_MAX_ATTEMPTS"):
        verdict_plan(max_attempts)


@pytest.mark.parametrize("code", ["400", "401", "403"])
async def test_an_abort_code_is_dead_at_once(clock: ManualClock, code: str) -> None:
    """O-064, O-065, O-089"""
    world = Verdicts(clock, code)

    delivery_id = await world.deliver()
    await world.work_for(DAY_S)

    stored = await world.stored(delivery_id)
    assert len(world.graph.calls) == 1
    assert stored.delivery.failed_because == "rejected"
    assert sorted(world.listener.words()) == ["alert", "dead_letter"]
    assert alert_line(stored.delivery) == (
        "[ALERT][oracle-email-retry] DEAD LETTER: session_id=cs_1 customer=ann@example.org"
        f" tier=full attempts=0 last_error={code}"
    )


@pytest.mark.parametrize("code", ["500", "502", "503", "504", "408", "409", "425", "599", "302"])
async def test_these_codes_are_tried_again(clock: ManualClock, code: str) -> None:
    """O-031, O-036, X-21"""
    world = Verdicts(clock, Failure("answered", "reject", code=code))

    delivery_id = await world.deliver()
    await world.work_for(1)

    assert world.graph.called_at_s == [0.0, 0.0]
    assert await world.word(delivery_id) == "DELIVERED"


def test_every_status_has_a_meaning() -> None:
    """O-036, X-21"""
    assert {graph_answer(code) for code in range(100, 600)} == {"accepted", "retry", "abort"}
    assert [code for code in range(100, 600) if graph_answer(code) == "accepted"] == [202]
    aborts = {code for code in range(400, 500) if graph_answer(code) == "abort"}
    assert set(range(400, 500)) - aborts == {408, 409, 425, 429}
    assert GRAPH_ANSWERS[-1] == "retry"


@pytest.mark.parametrize(
    ("retry_after_s", "at_s"), [(10.0, 60.0), (None, 60.0), (120.0, 120.0), (90000.0, 90000.0)]
)
async def test_a_429_waits_for_the_header_and_never_less_than_a_minute(
    clock: ManualClock, retry_after_s: float | None, at_s: float
) -> None:
    """O-028, O-093, X-05: also when it meets the inline call."""
    world = Verdicts(clock, Failure("throttled", code="429", retry_after_s=retry_after_s))

    await world.deliver()
    await world.work_for(2 * DAY_S)

    assert world.graph.called_at_s == [0.0, at_s]


async def test_a_429_never_shortens_the_ladder(clock: ManualClock) -> None:
    """O-058, X-05"""
    world = Verdicts(clock, "503", Failure("throttled", code="429", retry_after_s=120))

    await world.deliver()
    await world.work_for(DAY_S)

    assert world.graph.called_at_s == [0.0, 0.0, 300.0]


async def test_a_broken_line_has_the_code_minus_one_and_is_tried_again(
    clock: ManualClock,
) -> None:
    """O-035, O-018"""
    world = Verdicts(clock, "cut")

    delivery_id = await world.deliver()

    record = LAYOUT.record(await world.stored(delivery_id))
    assert record is not None
    assert (record["last_error_code"], record["last_error_detail"]) == (
        -1,
        "the connection was cut early",
    )
    assert record["last_attempt_at"] == "2026-02-23T10:00:00.000Z"


async def test_the_first_line_of_a_record_has_thirteen_fields_and_no_history(
    clock: ManualClock,
) -> None:
    """O-008, O-016, X-02"""
    world = Verdicts(clock)

    ticket = await world.submit(request_for(PAID, retry_id="7f3d1c52-8f4e-4c0b-9d5a-0c6f2b7a1e11"))

    record = LAYOUT.record(await world.stored(ticket.delivery_id))
    assert record is not None
    assert record == {
        "retry_id": "7f3d1c52-8f4e-4c0b-9d5a-0c6f2b7a1e11",
        "session_id": "cs_1",
        "customer_email": "ann@example.org",
        "tier": "full",
        "query": 'Ist "das" gut? ✓',
        "verdict": msgspec.Raw(ODD_JSON.encode()),
        "created_at": "2026-02-23T10:00:00.000Z",
        "attempt_count": 0,
        "last_attempt_at": None,
        "next_attempt_at": "2026-02-23T10:00:00.001Z",
        "last_error_code": None,
        "last_error_detail": None,
        "status": "PENDING",
    }
    assert len(record) == 13
    assert ODD_JSON.encode() in msgspec.json.encode(record)


async def test_a_record_counts_retries_and_names_the_next_one(clock: ManualClock) -> None:
    """O-018, O-054, X-16"""
    world = Verdicts(clock, "429", "502")

    delivery_id = await world.deliver()
    after_inline = LAYOUT.record(await world.stored(delivery_id))
    await world.work_after(60)
    after_first = LAYOUT.record(await world.stored(delivery_id))

    assert after_inline is not None
    assert after_first is not None
    assert [after_inline[name] for name in ("attempt_count", "next_attempt_at", "status")] == [
        0,
        "2026-02-23T10:01:00.000Z",
        "PENDING",
    ]
    assert [after_first[name] for name in ("attempt_count", "next_attempt_at", "status")] == [
        1,
        "2026-02-23T10:06:00.000Z",
        "RETRYING",
    ]
    assert [after_inline["last_error_code"], after_first["last_error_code"]] == [429, 502]


async def test_a_dead_letter_lists_every_code_met(clock: ManualClock) -> None:
    """O-046, O-047, X-74"""
    world = Verdicts(clock, "503", "502", "504", "500", "503")

    delivery_id = await world.deliver()
    await world.work_for(DAY_S)

    stored = await world.stored(delivery_id)
    letter = dead_letter_record(stored)
    assert letter["error_codes"] == [503, 502, 504, 500, 503]
    assert letter["status"] == "DEAD"
    assert letter.keys() - set(LAYOUT.fields) == {"error_codes"}
    assert alert_line(stored.delivery).endswith("attempts=4 last_error=503")
    assert sorted(world.listener.words()) == ["alert", "dead_letter"]


async def test_a_revoked_token_owes_a_line_of_its_own(clock: ManualClock) -> None:
    """O-107, O-108, X-80"""
    revoked = Failure("token_revoked", code="401", detail="GRAPH_REFRESH_TOKEN revoked")
    world = Verdicts(clock, revoked)

    await world.deliver()
    await world.work()

    assert sorted(world.listener.words()) == ["alert", "dead_letter", "token_alert"]


async def test_the_words_follow_the_claims(clock: ManualClock) -> None:
    """O-017, X-77, X-78"""
    world = Verdicts(clock, "503", "503", "503", "400")
    seen: list[str] = []

    async def watch(envelope: Envelope) -> None:
        seen.append(await world.word(envelope.delivery_id))

    world.graph.watch = watch
    delivery_id = await world.deliver()
    seen.append(await world.word(delivery_id))
    for wait_s in (300, 1800):
        await world.work_after(wait_s)
        seen.append(await world.word(delivery_id))

    assert seen == [
        "PENDING",  # the inline call
        "RETRYING",  # attempt 1, in the same call
        "RETRYING",
        "RETRYING",  # attempt 2
        "RETRYING",
        "RETRYING",  # attempt 3
        "DEAD",
    ]
    assert LAYOUT.words == ("PENDING", "RETRYING", "DELIVERED", "DEAD")


async def test_a_filter_by_a_word_finds_what_shows_it(clock: ManualClock) -> None:
    """O-017"""
    world = Verdicts(clock, "202", "400", "503", "503", "429")
    for number in range(3):
        await world.deliver(replace(PAID, session_id=f"cs_{number}"))
    await world.deliver(replace(PAID, session_id="cs_3"))
    await world.submit(requested(replace(PAID, session_id="cs_4")))
    await world.check_filters()

    await world.die_working()
    await world.check_filters()
    assert {word: len(ids) for word, ids in (await world.shown()).items()} == {
        "PENDING": 1,
        "RETRYING": 2,
        "DELIVERED": 1,
        "DEAD": 1,
    }


async def test_one_session_is_one_record_whatever_is_sent_again(clock: ManualClock) -> None:
    """O-059, O-060, X-25"""
    world = Verdicts(clock, *["503"] * 9)

    first = await world.deliver()
    again = await world.send(requested(replace(PAID, query="another")))
    await world.work_for(2 * DAY_S)
    dead = await world.send(requested(PAID))

    assert {first, again.delivery_id, dead.delivery_id} == {first}
    assert not again.created
    assert len(world.graph.calls) == 5
    assert len(await world.store.facts("mismatch")) == 1


async def test_a_session_delivered_at_once_is_not_sent_again(clock: ManualClock) -> None:
    """O-078, O-080, X-32"""
    world = Verdicts(clock)

    first = await world.deliver()
    again = await world.deliver()

    assert first == again
    assert len(world.graph.accepted) == 1


async def test_a_session_in_the_delivery_log_is_never_sent(clock: ManualClock) -> None:
    """O-062, O-063"""
    world = Verdicts(clock)
    world.logged.add("cs_1")

    delivery_id = await world.deliver()

    assert world.graph.calls == []
    assert await world.word(delivery_id) == "DELIVERED"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("payment_status", "unpaid"),
        ("payment_status", "no_payment_required"),
        ("payment_status", None),
        ("customer_email", None),
        ("customer_email", ""),
        ("customer_email", "ann@example.org\nDELIVERED session=cs_2"),
        ("tier", "gold"),
        ("session_id", "cs_1 to=eve@example.org"),
    ],
)
async def test_what_may_not_be_owed_leaves_no_record(
    clock: ManualClock, field: str, value: str | None
) -> None:
    """O-051, O-115, X-48"""
    world = Verdicts(clock)

    with pytest.raises(InvalidRequest):
        await world.deliver(replace(PAID, **{field: value}))

    assert await world.shown() == {word: set() for word in LAYOUT.words}


async def test_a_verdict_without_its_session_is_refused(clock: ManualClock) -> None:
    """O-019, O-010"""
    world = Verdicts(clock)

    with pytest.raises(InvalidRequest, match="key"):
        await world.send(replace(requested(PAID), key=None))


async def test_a_crash_before_the_mark_costs_an_attempt_and_the_ladder_goes_on(
    clock: ManualClock,
) -> None:
    """O-121, X-50"""
    world = Verdicts(clock, "429", "503")
    delivery_id = await world.deliver()
    clock.advance(60)

    await world.die_working()
    assert await world.word(delivery_id) == "RETRYING"
    await world.work_for(DAY_S)

    # The lease of 60 s ends, the interrupted attempt 1 is counted, attempt 2 comes 300 s later.
    assert world.graph.called_at_s == [0.0, 420.0, 2220.0]
    attempts = await world.store.attempts(delivery_id)
    assert [(a.status, a.counted) for a in attempts] == [
        ("failed", False),
        ("interrupted", True),
        ("failed", True),
        ("done", True),
    ]


async def test_what_may_have_been_sent_is_sent_again_with_a_note(clock: ManualClock) -> None:
    """O-118, O-120, X-57"""
    world = Verdicts(clock, "maybe")

    delivery_id = await world.deliver()
    await world.work_after(0.001)

    first, second = world.graph.accepted
    assert first.data == ODD_JSON.encode()
    assert second.data.decode() == f"{ODD_JSON}\n\n{DUPLICATE_NOTICE}"
    assert first.token == second.token
    assert (await world.get(delivery_id)).maybe_duplicate


async def test_the_verdict_is_the_same_bytes_on_every_attempt(clock: ManualClock) -> None:
    """O-096, X-58"""
    world = Verdicts(clock, *["503"] * 4)

    await world.deliver()
    await world.work_for(DAY_S)

    assert [envelope.data for envelope in world.graph.calls] == [ODD_JSON.encode()] * 5


async def test_a_surprise_raises_the_count_and_is_no_silent_end(clock: ManualClock) -> None:
    """O-003, O-109"""
    world = Verdicts(clock, *[RuntimeError("no connection pool")] * 5)

    delivery_id = await world.deliver()
    await world.work_for(DAY_S)

    delivery = await world.get(delivery_id)
    # After the mark nobody can tell: it is never called "not sent".
    assert (delivery.attempts_spent, delivery.failed_because) == (4, "uncertain")
    assert await world.word(delivery_id) == "DEAD"
    assert sorted(world.listener.words()) == ["alert", "dead_letter"]


async def test_every_paid_session_ends_delivered_or_dead_with_its_lines(
    clock: ManualClock,
) -> None:
    """O-003, O-050, O-073"""
    chance = random.Random(3)
    answers = ["202", "400", "403", "429", "500", "503", "504", "maybe", "timeout", "cut"]
    world = Verdicts(clock, *chance.choices(answers, k=6000))

    sessions = {await world.deliver(replace(PAID, session_id=f"cs_{n}")) for n in range(1000)}
    await world.work_for(2 * DAY_S)

    shown = await world.shown()
    assert shown["PENDING"] == shown["RETRYING"] == set()
    assert shown["DELIVERED"] | shown["DEAD"] == sessions
    assert min(len(shown["DELIVERED"]), len(shown["DEAD"])) > 100
    for notice, word in (("delivery_log", "DELIVERED"), ("dead_letter", "DEAD"), ("alert", "DEAD")):
        told = [delivery.id for heard, delivery in world.listener.heard if heard == notice]
        assert sorted(told) == sorted(shown[word])


async def test_replay_is_off_unless_switched_on(clock: ManualClock) -> None:
    """O-135, X-63"""
    world = Verdicts(clock, "400")
    dead = await world.deliver()
    for verb in ("replay", "restart", "resend", "dismiss"):
        with pytest.raises(NotAllowed, match=f"does not offer {verb}"):
            await getattr(world.ops, verb)(dead, actor="nous", reason="sure")

    world = Verdicts(clock, "400", replay=True)
    dead = await world.deliver()
    await world.ops.replay(dead, actor="nous", reason="consent renewed")
    await world.work()
    assert await world.word(dead) == "DELIVERED"


@pytest.mark.parametrize(
    ("script", "waits_s"),
    [([], 0.0), (["503"], 0.0), (["503", "503"], 0.001), (["503"] * 5, DAY_S), (["202"], 0.0)],
)
async def test_a_line_of_another_program_goes_on_where_it_stood(
    clock: ManualClock, script: list[str], waits_s: float
) -> None:
    """O-008, O-076"""
    world = Verdicts(clock, *script)
    ticket = await (world.send if script else world.submit)(requested(PAID))
    await world.work_for(waits_s)
    record = LAYOUT.record(await world.stored(ticket.delivery_id))
    assert record is not None

    other = Verdicts(clock)
    new = other.adopted(LAYOUT.parse(record))

    [added] = await other.store.add([new])
    assert added.delivery_id == ticket.delivery_id
    before, after = await world.get(ticket.delivery_id), new.delivery
    assert world.route.word(after) == world.route.word(before)
    assert (after.attempts_spent, after.key, after.state) == (
        before.attempts_spent,
        before.key,
        before.state,
    )
    assert variables_of(new.payload)["verdict"] == ODD_JSON
    if before.state == "pending":
        assert after.due_at_ms == max(before.due_at_ms or 0, START_MS + 1)


def test_a_line_with_a_foreign_status_or_field_is_refused() -> None:
    """O-017, O-008"""
    line = dict.fromkeys(LAYOUT.fields) | {"status": "LOST"}
    with pytest.raises(InvalidRequest, match="extra"):
        LAYOUT.parse({**line, "extra": 1})
    with pytest.raises(InvalidRequest, match="tier: is missing"):
        LAYOUT.parse({name: None for name in LAYOUT.fields if name != "tier"})
