"""From settings to a Homing: what is asked for is written down, and what cannot be is refused."""

import pytest

from homing.domain.errors import SettingsError
from homing.domain.policy import Plan, Stage
from homing.engine.route import Route
from homing.engine.work.steps import SendStep
from homing.plugins.known import check_queues
from homing.plugins.programs import Program, assemble, build, defaults, route_for
from homing.plugins.value import NoSettings, Plugin
from homing.runtime.urls import provider_from_url
from homing.settings import Loaded, RouteSettings, Settings
from homing.settings.tree import LogSettings, TelemetrySettings


def test_a_delivery_log_is_owed_with_every_success() -> None:
    assert route_for(Settings()).plan.notify_on_delivered == ()
    kept = route_for(Settings(log=LogSettings(delivery_file="log")))
    assert kept.plan.notify_on_delivered == ("delivery_log",)
    assert kept.plan.notify_on_failed == ("alert",)


def test_sentry_is_owed_with_every_dead_letter() -> None:
    chosen = Settings(telemetry=TelemetrySettings(sentry_dsn="https://a@s.example.org/1"))

    assert route_for(chosen).plan.notify_on_failed == ("alert", "sentry")


def test_a_route_that_is_not_there_is_named() -> None:
    with pytest.raises(SettingsError, match=r"routes\.post: there is no such route"):
        build(Settings(routes={"post": RouteSettings()}), worker=False)


def test_settings_made_in_code_are_checked_too() -> None:
    with pytest.raises(SettingsError, match="time_scale"):
        build(
            Settings(provider="smtp://mail.example.org", sender="a@b.c", time_scale=60.0),
            worker=False,
        )


@pytest.mark.parametrize(
    ("provider", "is_refused"),
    [
        ("stub:", False),
        ("smtp://127.0.0.1:2525?tls=none", False),
        ("smtp://127.8.8.8", False),
        ("smtp://localhost", False),
        ("smtp://[::1]:25", False),
        ("smtp://mail.example.org", True),
        ("smtps://192.0.2.1", True),
        ("smtp://localhost.example.org", True),
    ],
)
def test_fast_time_is_refused_where_mail_could_leave_the_machine(
    provider: str, is_refused: bool
) -> None:
    settings = Settings(provider=provider, sender="a@b.c", time_scale=600.0)

    if is_refused:
        with pytest.raises(SettingsError, match="time_scale: is for testing"):
            build(settings, worker=False)
    else:
        build(settings, worker=False)


@pytest.mark.parametrize(
    ("provider", "is_refused"),
    [("stub:", False), ("smtp://127.0.0.1:2525", False), ("smtp://mail.example.org", True)],
)
def test_a_provider_that_only_a_step_uses_is_asked_too(provider: str, is_refused: bool) -> None:
    step = SendStep(provider_from_url(provider), lambda delivery, content: b"a letter")
    plan = Plan(stages=(Stage(name="send", sends=True),))
    route = Route(name="post", plan=plan, steps={"send": step})
    plugin = Plugin(name="post", about="Post.", settings=NoSettings, routes=lambda setup: [route])
    program = Program(loaded=Loaded(Settings(time_scale=600.0), {}), plugin=plugin)

    if is_refused:
        with pytest.raises(SettingsError, match="time_scale: is for testing"):
            assemble(program, worker=False)
    else:
        assert len(assemble(program, worker=False).providers) == 1


def test_the_defaults_are_those_of_the_mail_route() -> None:
    assert defaults().max_attempts == 7


def test_whether_queues_are_shared_needs_no_provider() -> None:
    """A worker of an application has a provider of its own."""
    check_queues(Settings(provider="graph:?env_file=/nonexistent"), "events")
