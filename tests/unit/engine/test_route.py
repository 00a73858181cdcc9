"""Routes own their queues, choose plans by name, and judge what went wrong."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from homing.domain.errors import InvalidRequest, SettingsError, TerminalError
from homing.domain.failure import Failure
from homing.domain.message import Email, Event, Job
from homing.domain.policy import Plan, Retention, Stage
from homing.engine.intake.admitted import Admitted
from homing.engine.queues import queue_in_generation, queue_name, queue_part
from homing.engine.route import judge_as_is, routes_by_name
from homing.engine.work.handlers import Handlers, event_queue
from homing.ports import Done
from homing.testing import samples
from tests.unit.engine.providers import Provider, sending
from tests.unit.engine.world import Script, World, route, stage

names = st.text(st.sampled_from("ab/@%1"), min_size=1, max_size=4)


@given(st.lists(st.tuples(names, names, st.integers(0, 11)), min_size=2, max_size=6, unique=True))
def test_no_two_kinds_of_work_share_a_queue(kinds: list[tuple[str, str, int]]) -> None:
    queues = [queue_name(route, queue_part(kind), number) for route, kind, number in kinds]

    assert len(set(queues)) == len(kinds)


@given(names, names)
def test_a_queue_starts_with_the_name_of_its_route(one: str, suffix: str) -> None:
    main = queue_name(one)

    assert main.count("/") == 0
    assert queue_name(one, suffix).startswith(f"{main}/")
    assert queue_name(one, "", 3) == f"{main}@3"


@given(names, st.integers(0, 11), st.integers(0, 11))
def test_work_is_moved_to_another_generation(kind: str, before: int, after: int) -> None:
    delivery = samples.delivery("d1", queue=event_queue(kind, before), generation=before)

    assert queue_in_generation(delivery, after) == event_queue(kind, after)


def test_a_route_serves_its_queues_for_all_and_for_its_own_generation() -> None:
    old = route(name="events", queues=("paid", "sent"), generation=0)
    new = route(name="events", queues=("paid",), generation=3)

    assert route(name="mail").served_queues == ("mail",)
    assert old.served_queues == ("events/paid", "events/sent")
    assert new.served_queues == ("events/paid", "events/paid@3")


def test_two_routes_of_one_queue_are_refused_at_the_start() -> None:
    events = Handlers()
    events.add("paid", print, name="book", retry=None, timeout_s=1.0, terminal_errors=())
    one, other = events.route(), route(name="events", queues=("paid", "sent"))

    with pytest.raises(SettingsError) as refusal:
        World(one, other)

    assert "'events' and 'events' both own the queue 'events/paid'" in str(refusal.value)


def test_two_routes_of_one_name_are_refused_even_with_other_queues() -> None:
    with pytest.raises(SettingsError, match="both own the queue 'a'"):
        routes_by_name([route(name="a", queues=("x",)), route(name="a", queues=("y",))])


def test_a_stage_that_sends_has_a_send_step_and_no_other_has_one() -> None:
    sends = route(stage("send", sends=True), step=Script())
    calls = replace(sending(Provider()), plan=Plan(stages=(stage("send"),)))

    with pytest.raises(SettingsError, match=r"'send' of route .* must be a SendStep"):
        routes_by_name([sends])
    with pytest.raises(SettingsError, match=r"'send' of route .* must say sends=True"):
        routes_by_name([calls])


def test_the_plans_of_a_route_keep_their_records_for_the_same_time() -> None:
    """Purges know the route alone: a plan of its own time would be ignored."""
    lasting = Plan(stages=(stage(),), retention=Retention(delivered_s=60.0))
    brief = replace(lasting, retention=Retention(delivered_s=5.0))
    keyed = replace(lasting, retention=Retention(delivered_s=60.0, key_s=5.0))

    with pytest.raises(SettingsError, match=r"plan 'b' of route 'a' .* retention\.delivered_s"):
        routes_by_name([replace(route(name="a"), plan=lasting, plans={"b": brief})])
    routes_by_name([replace(route(name="a"), plan=lasting, plans={"b": keyed})])


def test_routes_that_share_nothing_stand_side_by_side() -> None:
    routes = [route(name="a"), route(name="a/b"), route(name="a@1", queues=("", "b"))]

    assert list(routes_by_name(routes)) == ["a", "a/b", "a@1"]


MAIN, TEMPLATE = Plan(stages=(stage(),)), Plan(stages=(stage(timeout_s=90.0),))


@pytest.mark.parametrize(
    ("fields", "plan"),
    [
        ({"queue": "mail"}, MAIN),
        ({"queue": "mail", "plan": "template"}, TEMPLATE),
        # The plan named like the queue.
        ({"queue": "mail/template"}, TEMPLATE),
        ({"queue": "mail/template@5", "generation": 5}, TEMPLATE),
        ({"queue": "mail/other"}, MAIN),
        # No longer there: what is left of it follows the main plan.
        ({"queue": "mail", "plan": "gone"}, MAIN),
    ],
)
def test_a_delivery_follows_the_plan_that_it_names_or_that_of_its_queue(
    fields: dict[str, object], plan: Plan
) -> None:
    mail = route(name="mail", queues=("", "template"), plans={"template": TEMPLATE}, generation=1)

    assert mail.plan_of(samples.delivery("d1", **fields)) == plan


def test_a_change_reaches_every_plan_and_the_lease_covers_the_longest() -> None:
    mail = route(name="mail", plans={"template": TEMPLATE})

    silent = mail.with_plans(lambda plan: Plan(stages=plan.stages, notify_on_failed=()))

    assert [plan.notify_on_failed for plan in silent.all_plans] == [(), ()]
    assert [plan.stages for plan in silent.all_plans] == [MAIN.stages, TEMPLATE.stages]
    assert silent.lease_s == mail.lease_s == 120.0


def test_an_ordinary_message_is_taken_as_it_is() -> None:
    mail = Email(to="ann@example.org", cc="bob@example.org", template_id="hi", metadata={"a": "b"})

    assert Admitted.of(mail) == Admitted(
        message=mail,
        recipients=("ann@example.org", "bob@example.org"),
        topic="hi",
        metadata={"a": "b"},
    )
    assert Admitted.of(Event("paid")).topic == "paid"
    assert Admitted.of(Job("review"), topic="cl-1", queue="big").topic == "cl-1"
    with pytest.raises(InvalidRequest, match="to: must name"):
        Admitted.of(Email(to=()))


def test_an_exception_is_classified_and_a_failure_stands() -> None:
    failure = Failure("deferred", "retry")

    assert judge_as_is(failure, stage()) is failure
    assert judge_as_is(TerminalError("never"), stage()).disposition == "reject"
    assert judge_as_is(ValueError("x"), stage()).error_class == "ValueError"


def test_the_events_route_takes_nothing_but_events() -> None:
    with pytest.raises(InvalidRequest, match="this route takes events"):
        Handlers().route().admit(Job("review"))


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(("a/b", "a%2Fb"), 2)))
def test_types_that_look_alike_have_queues_of_their_own(one: str, other: str) -> None:
    assert event_queue(one) != event_queue(other)


async def test_each_failed_attempt_is_judged_once() -> None:
    seen: list[str] = []

    def judge(problem: Exception | Failure, at: Stage) -> Failure:
        seen.append(f"{type(problem).__name__} at {at.name}")
        return judge_as_is(problem, at)

    world = World(route(step=Script(ValueError("x"), Failure("deferred"), Done()), judge=judge))
    accepted = await world.submit()

    for _ in range(3):
        await world.run(after_s=60)

    assert seen == ["ValueError at handle", "Failure at handle"]
    assert (await world.get(accepted.id)).state == "delivered"
