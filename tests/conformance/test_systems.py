"""Each design as one value: its routes follow from its settings."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from email import message_from_bytes
from email.policy import SMTP
from pathlib import Path
from typing import Any

import pytest

from homing.domain.delivery import Content, Recipient
from homing.domain.errors import SettingsError
from homing.domain.message import Email, encode_message
from homing.engine.intake.admission import Request
from homing.engine.route import Route, routes_by_name
from homing.plugins.value import Plugin, Setup
from homing.settings import Settings
from homing.settings.durations import Seconds
from homing.testing import samples
from homing.testing.clocks import ManualClock
from homing_systems.mail.plugin import MailSettings
from homing_systems.verdicts.mail import composer
from homing_systems.verdicts.settings import VerdictSettings
from homing_systems.verdicts.verdict import Verdict, request_for
from tests.conformance.world import ScriptedProvider, World

NAMES = ("mail", "verdicts", "reviews", "events", "bookings")
# Their stages and handlers are the application's own.
WORKED_OFF_BY_AN_APPLICATION = {"reviews", "events"}


def plugin(name: str) -> Plugin[Any]:
    value = importlib.import_module(f"homing_systems.{name}").PLUGIN
    assert isinstance(value, Plugin)
    return value


def routes(name: str, settings: Any = None, **setup: Any) -> Sequence[Route]:
    value = plugin(name)
    words: dict[str, Any] = {"general": Settings(), "provider": ScriptedProvider(ManualClock())}
    return value.routes(Setup(settings or value.settings(), **(words | setup)))


@pytest.fixture
def templates(tmp_path: Path) -> str:
    folder = tmp_path / "auth.login_code" / "en"
    folder.mkdir(parents=True)
    (folder / "subject.tmpl").write_text("Your code")
    (folder / "text.tmpl").write_text("It is {{ code }}.")
    return str(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_plugin_is_registered_under_its_name_with_its_records(name: str) -> None:
    """X-98"""
    value = plugin(name)
    [route] = routes(name, working=False)

    assert value.name == name
    assert set(value.layouts) <= set(route.served_queues) | {route.name}
    assert value.layouts[route.name].labels == route.labels


def test_all_of_them_can_be_read_and_repaired_side_by_side() -> None:
    found = [route for name in NAMES for route in routes(name, working=False)]

    assert set(routes_by_name(found)) == {
        *("mail-service", "verdicts", "reviews", "events", "bookings")
    }


@pytest.mark.parametrize("name", NAMES)
def test_what_a_program_cannot_work_off_is_left_to_the_application(
    name: str, templates: str
) -> None:
    settings = MailSettings(template_dir=templates) if name == "mail" else None
    [route] = routes(name, settings)

    assert (route.concurrency == 0) == (name in WORKED_OFF_BY_AN_APPLICATION)


@pytest.mark.parametrize("name", ["mail", "verdicts", "bookings"])
def test_a_program_that_really_sends_must_be_told_the_sender(name: str, templates: str) -> None:
    settings = MailSettings(template_dir=templates) if name == "mail" else None
    general = Settings(provider="smtp://mail.example.org")

    with pytest.raises(SettingsError, match="sender: is required"):
        routes(name, settings, general=general)
    assert routes(name, settings, general=general, working=False)


def test_mail_settings_reach_every_plan(templates: str) -> None:
    """M-049, M-052, M-063"""
    settings = MailSettings(
        template_dir=templates,
        timeout=Seconds(7.0),
        concurrency=2,
        key_ttl=Seconds(60.0),
        delivery_ttl=Seconds(61.0),
        attempt_ttl=Seconds(62.0),
    )

    [route] = routes("mail", settings)

    assert route.concurrency == 2
    assert len(route.all_plans) == 2
    for plan in route.all_plans:
        assert {stage.timeout_s for stage in plan.stages} == {7.0}
        kept = plan.retention
        assert (kept.key_s, kept.delivered_s, kept.payload_s) == (60.0, 61.0, 61.0)
        assert (kept.failed_s, kept.attempts_s, kept.failed_payload_s) == (62.0, 62.0, 61.0)


def test_the_mail_service_does_not_start_without_its_templates(tmp_path: Path) -> None:
    """M-030, M-142"""
    with pytest.raises(SettingsError, match="MAIL_TEMPLATE_DIR"):
        routes("mail", MailSettings(template_dir=str(tmp_path)))


async def test_a_templated_mail_goes_through_both_stages_in_one_queue(
    templates: str, clock: ManualClock
) -> None:
    """M-129"""
    provider = ScriptedProvider(clock)
    general = Settings(provider="smtp://mail.example.org", sender="no-reply@example.org")
    [route] = routes(
        "mail", MailSettings(template_dir=templates), general=general, provider=provider
    )
    world = World(route, clock)
    message = Email(to="ann@example.org", template_id="auth.login_code", variables={"code": "7"})

    ticket = await world.submit(request(message))
    plain = await world.submit(request(Email(to="bob@example.org", subject="Hi", text="Hi")))
    await world.work()

    assert (ticket.delivery.stage, plain.delivery.stage) == ("render", "send")
    assert ticket.delivery.queue == plain.delivery.queue == "mail-service"
    assert b"It is 7." in provider.accepted[0].data + provider.accepted[1].data
    assert len(provider.accepted) == 2


def request(message: Email) -> Request:
    return Request(message=message, key=f"k-{message.to}", source="shop")


@pytest.mark.parametrize("number", [1, 4, 7])
def test_the_number_of_retries_of_a_verdict_is_set(number: int) -> None:
    """O-039"""
    [route] = routes("verdicts", VerdictSettings(max_attempts=number))

    assert route.plan.stage("send").retry.max_attempts == number


def test_a_verdict_is_mailed_as_it_was_stored() -> None:
    """O-066"""
    verdict = Verdict(
        session_id="cs_1",
        customer_email="ann@example.org",
        tier="full",
        query="?",
        verdict='{"answer": "yes"}',
        payment_status="paid",
    )
    payload = encode_message(request_for(verdict, retry_id="d1").message)
    delivery = samples.delivery("d1", recipients=(Recipient("ann@example.org"),))

    data = composer("no-reply@example.org")(delivery, Content(payload))

    mail = message_from_bytes(data, policy=SMTP)
    assert (mail["to"], mail["from"]) == ("ann@example.org", "no-reply@example.org")
    text, html = (part.get_content().strip() for part in mail.iter_parts())
    assert text == '{"answer": "yes"}'
    assert '>{"answer": "yes"}<' in html
    assert composer("no-reply@example.org")(delivery, Content(payload)) == data
