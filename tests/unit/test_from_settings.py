"""From settings to a Homing: what is asked for is written down, and what cannot be is refused."""

import pytest

from homing.domain.errors import SettingsError
from homing.from_settings import build, defaults, route_for
from homing.settings import RouteSettings, Settings
from homing.settings.tree import LogSettings, TelemetrySettings


def test_a_delivery_log_is_owed_with_every_success() -> None:
    assert route_for(Settings()).plan.notify_on_delivered == ()
    kept = route_for(Settings(log=LogSettings(deliveries="log")))
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


def test_the_defaults_are_those_of_the_mail_route() -> None:
    assert defaults().max_attempts == 7
