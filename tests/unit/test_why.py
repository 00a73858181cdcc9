"""`why` in plain sentences: what happened, what comes next, and when."""

from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain.delivery import (
    Attempt,
    AttemptStatus,
    Cycle,
    Delivery,
    Fact,
    Receipt,
    Recipient,
)
from homing.domain.failure import Failure
from homing.domain.message import Email, Event, Job
from homing.domain.policy import Ladder, Plan, Retry, Stage
from homing.engine.ops.labels import Label, LabelTable
from homing.engine.ops.why import explain
from homing.engine.route import Route
from homing.engine.work.function_step import HandlerCall
from homing.ports import Query
from homing.providers.stub import StubProvider
from homing.runtime.app import Homing
from homing.runtime.mail_route import mail_route
from homing.stores.memory import MemoryDisk, MemoryStore
from homing.testing.clocks import ManualClock

T0_MS = 1_800_000_000_000
ROUTE = Route(
    name="mail",
    plan=Plan(stages=(Stage(name="send", retry=Retry(Ladder((60.0,)), 3), sends=True),)),
    steps={},
)


def delivery(**fields: Any) -> Delivery:
    given = {
        "id": "d-1",
        "route": "mail",
        "queue": "mail",
        "stage": "send",
        "created_at_ms": T0_MS,
        "updated_at_ms": T0_MS,
        "due_at_ms": T0_MS,
        **fields,
    }
    return Delivery(**given)


def told(given: Delivery, **more: Any) -> str:
    words: dict[str, Any] = {"now_ms": T0_MS, "route": ROUTE, "attempts": (), **more}
    attempts, route = words.pop("attempts"), words.pop("route")
    return "\n".join(explain(given, attempts, route, **words))


@pytest.mark.parametrize(
    ("fields", "more", "sentence"),
    [
        ({}, {}, "It is pending. Attempt 1 of 3 (send) is due now."),
        (
            {"attempts_spent": 1, "due_at_ms": T0_MS + 3_720_000},
            {},
            "Attempt 2 of 3 (send) is due at 2027-01-15 09:02:00Z, in 1 h 2 min.",
        ),
        (
            {"attempts_spent": 2},
            {},
            "It is the last of its budget: if it fails, a person has to decide.",
        ),
        ({}, {"now_ms": T0_MS + 120_000}, "It has been due for 2 min: is a worker running?"),
        ({"maybe_sent_at_ms": T0_MS}, {}, "An earlier attempt may have been accepted"),
        ({"expires_at_ms": T0_MS}, {}, "It expires at 2027-01-15 08:00:00Z."),
        ({"key": "k", "source": "shop"}, {}, "accepted from 'shop' under key 'k' on route 'mail'."),
        ({"clone_of": "d-0"}, {}, "as a second delivery of d-0."),
        (
            {},
            {"paused": Fact("paused", "mail", T0_MS, {"by": "fault", "reason": "bad login"})},
            "Its route is paused since 2027-01-15 08:00:00Z: bad login. It keeps its place; from",
        ),
        (
            {},
            {
                "paused": Fact(
                    "paused",
                    "mail",
                    T0_MS,
                    {"by": "fault", "reason": "535", "error_class": "auth_failed"},
                )
            },
            "Correct them in the setting `provider` (`HOMING_PROVIDER`)",
        ),
        (
            {},
            {"paused": Fact("paused", "mail", T0_MS, {"by": "ann", "reason": "moving"})},
            "moving. It keeps its place until an operator resumes the route.",
        ),
        (
            {
                "state": "in_flight",
                "holder": "w-1",
                "claimed_at_ms": T0_MS - 5000,
                "due_at_ms": T0_MS + 85_000,
            },
            {},
            (
                "w-1 has been trying it for 5 s. Should that worker die, another takes over within"
                " seconds; should it hang, in 1 min 25 s."
            ),
        ),
        ({"state": "in_flight", "holder": "w-1"}, {}, "its worker w-1 is overdue"),
        ({"state": "waiting", "open_children": 2}, {}, "2 of its children have not ended yet."),
        ({"state": "delivered"}, {}, "the provider accepted it. Nothing more will happen."),
        (
            {"state": "delivered", "receipt": Receipt("m-7", evidence="operator")},
            {},
            "the provider accepted it as m-7 (confirmed by a person).",
        ),
        (
            {"state": "suppressed", "failure": Failure("s", "suppress", detail="on the list")},
            {},
            "skipped on purpose, on the list. Nothing more will happen by itself.",
        ),
        ({"earlier_maybe_sent": True}, {}, "An earlier payload of it may have been accepted."),
        (
            {"state": "dismissed", "open_children": 2},
            {},
            "2 of its children were under way and end",
        ),
        ({"parent_id": "d-0"}, {}, "accepted on route 'mail' as a child of d-0."),
        ({"state": "dismissed"}, {}, "cancelled by a person. `restore` opens it again."),
        (
            {"state": "dismissed", "failed_because": "rejected"},
            {},
            "closed by a person. `restore` opens it again.",
        ),
        ({"maybe_duplicate": True}, {}, "the recipient may have it twice."),
        (
            {"recipients": (Recipient("a@b.c", "accepted"), Recipient("d@e.f", "refused", "550"))},
            {},
            "  a@b.c: accepted\n  d@e.f: refused (550)",
        ),
    ],
)
def test_the_story_says(fields: dict[str, Any], more: dict[str, Any], sentence: str) -> None:
    assert sentence in told(delivery(**fields), **more)


@pytest.mark.parametrize(
    ("because", "advice"),
    [
        ("rejected", "amend it if needed, then replay or dismiss it."),
        ("exhausted", "When the server works again, replay it; or dismiss it."),
        ("uncertain", "`confirm` it with evidence if it arrived"),
        ("expired", "Resend it if it is still wanted"),
        ("poison", "Look at the worker's log"),
    ],
)
def test_a_dead_letter_says_why_and_what_to_do(because: str, advice: str) -> None:
    text = told(delivery(state="failed", failed_because=because))

    assert f"It is failed ({because})." in text
    assert advice in text


@pytest.mark.parametrize(
    ("status", "step"),
    [
        ("done", "An attempt ended well, as told above: `confirm` it"),
        ("failed", "Ask the provider"),
    ],
)
def test_damage_of_the_store_is_told_with_what_is_known_nevertheless(
    status: AttemptStatus, step: str
) -> None:
    damaged = delivery(
        state="failed", failed_because="uncertain", failure=Failure("store_damaged", "retry")
    )
    attempt = Attempt(
        delivery_id="d-1", cycle=1, number=1, stage="send", status=status, ended_at_ms=T0_MS
    )

    said = told(damaged, attempts=(attempt,))

    assert "What the store said of it last was damaged, and is lost." in said
    assert "there is no evidence" not in said
    assert step in said
    assert ("if that is lost too, submit it anew" in said) == (status == "failed")


def test_what_will_be_held_is_not_announced_as_an_attempt() -> None:
    holding = replace(ROUTE, plan=replace(ROUTE.plan, on_unknown="hold"))
    doubtful = delivery(maybe_sent_at_ms=T0_MS, attempts_spent=1, due_at_ms=T0_MS + 60_000)

    said = told(doubtful, route=holding)
    assert "It is held for a person at 2027-01-15 08:01:00Z, in 1 min: an earlier" in said
    assert "Attempt 2" not in said
    waived = told(replace(doubtful, doubt_waived=True), route=holding)
    assert "Attempt 2 of 3 (send) is due at" in waived


def test_a_dead_letter_that_was_amended_is_to_be_replayed() -> None:
    said = told(
        delivery(state="failed", failed_because="rejected", payload_no=2, restart_at="send")
    )
    assert "It was amended since: replay it, or dismiss it." in said
    assert "amend it if needed" not in said


def test_the_past_is_told_in_the_order_of_time() -> None:
    attempts = [
        Attempt(
            delivery_id="d-1",
            number=1,
            stage="send",
            status="failed",
            ended_at_ms=T0_MS + 1000,
            code="451",
            detail="try later",
            maybe_sent=True,
        ),
        Attempt(delivery_id="d-1", number=2, stage="send", status="done", ended_at_ms=T0_MS + 9000),
        Attempt(delivery_id="d-1", number=3, stage="send", status="scheduled"),
    ]
    cycle = Cycle(
        number=1,
        attempts=1,
        stage="send",
        failed_because="exhausted",
        replayed_at_ms=T0_MS + 5000,
        replayed_by="ann",
        reason="up again",
    )
    audit = Fact(
        "audit", "d-1/x", T0_MS + 5000, {"verb": "replay", "actor": "ann", "reason": "up again"}
    )

    lines = told(delivery(failure_history=(cycle,)), attempts=attempts, audit=[audit]).splitlines()

    assert lines[:5] == [
        "2027-01-15 08:00:00Z accepted on route 'mail'.",
        (
            "2027-01-15 08:00:01Z attempt 1 (send) failed and may be tried again: 451 try later;"
            " it may have been accepted nevertheless."
        ),
        (
            "2027-01-15 08:00:05Z cycle 1 was closed as exhausted after 1 attempt(s); a new budget"
            " began."
        ),
        "2027-01-15 08:00:05Z ann used replay: up again",
        "2027-01-15 08:00:09Z attempt 2 (send) was accepted.",
    ]


def test_the_status_is_the_routes_own_word() -> None:
    labels = LabelTable((Label("queued", "pending"), Label("dead_letter", "failed")))
    route = Route(name="mail", plan=ROUTE.plan, steps={}, labels=labels)

    assert "It is queued." in told(delivery(), route=route)
    assert "It is dead_letter (rejected)." in told(
        delivery(state="failed", failed_because="rejected"), route=route
    )


def test_a_route_that_is_gone_and_a_time_beyond_the_calendar_are_no_obstacle() -> None:
    text = told(delivery(due_at_ms=10**17), route=None)

    assert "It is pending. Attempt 1 (send) is due at 100000000000000000 ms" in text


async def test_a_real_life_from_acceptance_to_a_dead_letter() -> None:
    clock, provider = ManualClock(T0_MS), StubProvider()
    homing = Homing("memory:", routes=(mail_route(provider),), worker=False, clock=clock)
    async with homing:
        ticket = await homing.submit(Email(to="down@stub.test", subject="S", text="t"), key="k")
        await homing.engine.run_until_idle()
        waiting = await homing.explain(ticket.delivery_id)
        for _ in range(6):
            clock.advance(43_200)
            await homing.engine.run_until_idle()
        dead = await homing.explain(ticket.delivery_id)

    assert (
        waiting[-1] == "No live worker serves 'mail': start one (homing worker --app MODULE:NAME)."
    )
    assert waiting[-2] == (
        "It is pending. Attempt 2 of 7 (send) is due at 2027-01-15 08:01:00Z, in 1 min."
    )
    assert dead[-2:] == [
        "It is failed (exhausted). All 7 attempts failed.",
        "When the server works again, replay it; or dismiss it.",
    ]


class NoSuchOrder(Exception):
    pass


async def explained(*ids_of: str, fail: bool) -> tuple[list[str], list[str]]:
    """What is said of an event with these handlers, and of the child of the first one."""
    clock = ManualClock(T0_MS)
    homing = Homing("memory:", provider="stub:", worker=False, clock=clock)
    for name in ids_of:

        @homing.on("order.paid", name=name, terminal_errors=(NoSuchOrder,))
        def handle(event: HandlerCall, name: str = name) -> None:
            if fail and name == ids_of[0]:
                raise NoSuchOrder(f"order {event.data['order']}")

    async with homing:
        ticket = await homing.submit(Event("order.paid", {"order": 7}), key="k")
        await homing.engine.run_until_idle()
        page = await homing.store.page(Query(parent_id=ticket.delivery_id))
        whole = await homing.explain(ticket.delivery_id)
        parts = [child.id for child in page.items if child.metadata["handler"] == ids_of[0]]
        return whole, [line for part in parts for line in await homing.explain(part)]


async def test_an_event_that_failed_names_handler_child_and_error() -> None:
    whole, part = await explained("book_revenue", "tell_ann", fail=True)

    assert whole[-3].startswith("  child ")
    assert whole[-3].endswith(
        ", for handler 'book_revenue': failed (rejected): NoSuchOrder: order 7"
    )
    assert whole[-2:] == [
        "It is failed (rejected). Some of its children have failed.",
        "Fix the cause in its failed children, then replay it: they are replayed with it.",
    ]
    assert "accepted 'order.paid' under key 'k'" in whole[0]
    assert part[0].endswith(", for handler 'book_revenue'.")
    assert part[1].endswith("attempt 1 (handle) failed permanently: NoSuchOrder: order 7.")
    assert part[-3:] == [
        "It is failed (rejected). It failed permanently; unchanged it would fail again.",
        "The last error of handler 'book_revenue': NoSuchOrder: order 7",
        "Fix the code or the data, amend it if needed, then replay or dismiss it.",
    ]


async def test_an_event_or_job_that_has_finished_is_not_called_accepted_by_a_provider() -> None:
    whole, part = await explained("book_revenue", "tell_ann", fail=False)
    assert (
        whole[-1] == "It is delivered: all its children have ended well. Nothing more will happen."
    )
    assert part[1].endswith("attempt 1 (handle) finished.")
    assert part[-1] == (
        "It is delivered: handler 'book_revenue' has handled it. Nothing more will happen."
    )

    [*_, alone], _ = await explained("book_revenue", fail=False)
    assert alone == (
        "It is delivered: handler 'book_revenue' has handled it. Nothing more will happen."
    )


async def test_an_event_that_failed_in_its_only_handler_names_it() -> None:
    whole, _ = await explained("book_revenue", fail=True)

    assert whole[0].endswith("on route 'events', for handler 'book_revenue'.")
    assert whole[-2] == "The last error of handler 'book_revenue': NoSuchOrder: order 7"


async def test_a_handler_that_was_renamed_is_told_by_both_names() -> None:
    disk, ids, lines = MemoryDisk(), [], [""]
    for name in ("book", "book_revenue"):
        homing = Homing(MemoryStore(disk), worker=False, clock=ManualClock(T0_MS))
        homing.on("order.paid", name=name)(lambda event: None)
        async with homing:
            ids.append((await homing.submit(Event("order.paid"))).delivery_id)
            await homing.engine.run_until_idle()
            lines = await homing.explain(ids[0])

    assert "handler 'book or book_revenue' has handled it" in lines[-1]


async def test_a_job_that_failed_names_its_stage_and_error() -> None:
    homing = Homing("memory:", worker=False, clock=ManualClock(T0_MS))

    @homing.job("report", stages=("collect", "print"), terminal_errors=(NoSuchOrder,))
    def work(job: HandlerCall) -> None:
        if "collect" in job.results or job.data:
            raise NoSuchOrder("order 7")

    async with homing:
        failed = (await homing.submit(Job("report", {"order": 7}))).delivery_id
        done = (await homing.submit(Job("report"))).delivery_id
        await homing.engine.run_until_idle()
        told = await homing.explain(failed)
        finished = await homing.explain(done)

    assert told[-2] == "The last error of stage 'collect': NoSuchOrder: order 7"
    assert finished[-1] == (
        "It is delivered: its last stage, 'print', has finished. Nothing more will happen."
    )


async def test_work_that_no_worker_serves_names_the_command_that_would() -> None:
    """Handlers and jobs are those of an application; only mail needs none."""
    disk = MemoryDisk()
    homing = Homing(MemoryStore(disk), provider="stub:", worker=False)
    homing.job("report")(lambda job: None)
    async with homing:
        event = await homing.submit(Event("order.paid"))
        job = await homing.submit(Job("report"))
        mail = await homing.submit(Email(to="ok@stub.test", subject="S", text="t"))
        told = [(await homing.explain(one.delivery_id))[-1] for one in (event, job, mail)]
    elsewhere = Homing(MemoryStore(disk), worker=False)
    async with elsewhere:
        read = await elsewhere.explain(job.delivery_id)

    assert told == [
        "No live worker serves 'events/order.paid': start one (homing worker --app MODULE:NAME).",
        "No live worker serves 'report': start one (homing worker --app MODULE:NAME).",
        "No live worker serves 'mail': start one (homing worker --app MODULE:NAME).",
    ]
    assert read[-1] == (
        "Here it can only be read: there is no route 'report' here; there are events. If it is a"
        " job of an application, use that one's Homing (--app MODULE:NAME)."
    )


def test_a_stage_before_the_send_is_not_called_accepted() -> None:
    plan = Plan(stages=(Stage(name="render"), Stage(name="send", sends=True)))
    route = Route(name="mail", plan=plan, steps={})
    done = Attempt(
        delivery_id="d-1", number=1, stage="render", status="done", ended_at_ms=T0_MS + 1
    )

    assert "attempt 1 (render) finished." in told(delivery(), route=route, attempts=[done])


def test_of_many_parts_some_are_named() -> None:
    parts = [delivery(id=f"c-{n}", parent_id="d-1") for n in range(25)]

    text = told(delivery(state="waiting", open_children=25), children=parts)

    assert text.count("  child c-") == 20
    assert "  and more children that have not ended well" in text
