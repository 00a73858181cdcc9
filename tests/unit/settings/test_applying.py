"""Settings in a route: what was set takes the place of the route's own, the rest stays."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from homing.domain.policy import (
    Exponential,
    FullJitter,
    Ladder,
    Plan,
    Retention,
    Retry,
    RetryAfter,
    Stage,
)
from homing.engine.route import Route
from homing.settings import RouteSettings, Seconds, apply_to, in_force
from homing.settings.durations import Term
from homing.settings.tree import ExponentialSettings, RetentionSettings, RetrySettings

times_s = st.integers(0, 10_000).map(float)
schedules = st.one_of(
    st.lists(times_s, min_size=1, max_size=5).map(lambda steps: Ladder(tuple(steps))),
    st.builds(
        Exponential,
        initial_s=times_s,
        multiplier=st.sampled_from([1.0, 1.5, 2.0]),
        max_s=st.none() | st.just(20_000.0),
    ),
)
policies = st.builds(
    Retry,
    schedule=schedules | schedules.map(FullJitter),
    max_attempts=st.integers(1, 20),
    retry_after=st.builds(RetryAfter, min_s=times_s, cap_s=st.none() | st.just(20_000.0)),
)
keeping = st.builds(Retention, delivered_s=st.none() | times_s, failed_s=st.none() | times_s)


def route(retry: Retry, retention: Retention = Retention()) -> Route:  # noqa: B008 - frozen
    stage = Stage(name="send", retry=retry, timeout_s=60.0)
    return Route(name="mail", plan=Plan(stages=(stage,), retention=retention), steps={})


OWN = route(Retry(Ladder((60.0, 300.0)), 3, RetryAfter(1.0, 100.0)), Retention(delivered_s=9.0))


@given(policies, keeping)
def test_what_is_in_force_can_be_set_and_changes_nothing(
    retry: Retry, retention: Retention
) -> None:
    own = route(retry, retention)

    assert apply_to(own, in_force(own)) == own


def test_nothing_set_changes_nothing() -> None:
    assert apply_to(OWN, RouteSettings()) == OWN


def test_what_is_set_takes_its_place_in_every_stage() -> None:
    two = Route(
        name="review",
        plan=Plan(stages=(Stage(name="fetch"), Stage(name="notify"))),
        steps={},
    )

    changed = apply_to(two, RouteSettings(max_attempts=9, timeout=Seconds(7.0)))

    assert [stage.retry.max_attempts for stage in changed.plan.stages] == [9, 9]
    assert [stage.timeout_s for stage in changed.plan.stages] == [7.0, 7.0]


def test_a_ladder_and_growing_waits_replace_the_schedule_and_keep_the_rest() -> None:
    ladder = apply_to(OWN, RouteSettings(retry=RetrySettings(ladder=(Seconds(5.0),))))
    growing = apply_to(
        OWN,
        RouteSettings(
            retry=RetrySettings(exponential=ExponentialSettings(Seconds(2.0), 3.0, Seconds(50.0)))
        ),
    )

    assert ladder.plan.stages[0].retry == Retry(Ladder((5.0,)), 3, RetryAfter(1.0, 100.0))
    assert growing.plan.stages[0].retry.schedule == Exponential(2.0, 3.0, 50.0)


def test_jitter_is_switched_on_and_off_over_the_routes_own_schedule() -> None:
    on = apply_to(OWN, RouteSettings(retry=RetrySettings(jitter=True)))
    off = apply_to(on, RouteSettings(retry=RetrySettings(jitter=False)))
    kept = apply_to(on, RouteSettings(retry=RetrySettings(ladder=(Seconds(5.0),))))

    assert on.plan.stages[0].retry.schedule == FullJitter(Ladder((60.0, 300.0)))
    assert off == OWN
    assert kept.plan.stages[0].retry.schedule == FullJitter(Ladder((5.0,)))


def test_retention_is_set_class_by_class() -> None:
    changed = apply_to(OWN, RouteSettings(retention=RetentionSettings(payload=Term(3.0))))

    assert changed.plan.retention == Retention(delivered_s=9.0, payload_s=3.0)


def test_every_plan_of_a_route_is_set() -> None:
    """A handler or template with a plan of its own is no exception."""
    other = Plan(stages=(Stage(name="render"), Stage(name="send", timeout_s=5.0)))
    set_route = apply_to(
        replace(OWN, plans={"template": other}),
        RouteSettings(
            max_attempts=2,
            timeout=Seconds(7.0),
            on_unknown="hold",
            retention=RetentionSettings(delivered=Term(60.0)),
        ),
    )

    for plan in set_route.all_plans:
        assert [stage.retry.max_attempts for stage in plan.stages] == [2] * len(plan.stages)
        assert {stage.timeout_s for stage in plan.stages} == {7.0}
        assert (plan.on_unknown, plan.retention.delivered_s) == ("hold", 60.0)
