"""The mail route: whom mail comes from, on the wire too; what takes long leaves the loop free."""

from __future__ import annotations

import asyncio
import re
import threading
from email import message_from_bytes
from pathlib import Path
from typing import Any

import dkim
import pytest

from homing import Email, Homing, Ladder, Retry
from homing.content.templates import Catalog
from homing.content.templates.budget import Bounds
from homing.content.templates.loading import load_entries
from homing.domain.delivery import Delivery
from homing.domain.errors import InvalidRequest, SettingsError
from homing.domain.message import Attachment, Invitation
from homing.providers.stub import StubProvider
from homing.runtime.mail_route import mail_route
from homing.testing.clocks import ManualClock
from homing_systems.mail.rendering import RENDER
from homing_systems.mail.route import MailRules
from homing_systems.mail.route import mail_route as service_route
from tests.unit.content.keys import dns, private_key
from tests.unit.smtp.wire_server import WireServer

SENDERS = ("ann@example.org", "@news.example.org")


def homing_with(**words: Any) -> tuple[Homing, StubProvider]:
    provider = StubProvider()
    words = {"sender": "Shop <shop@example.org>", "allowed_senders": SENDERS, **words}
    return Homing("memory:", routes=[mail_route(provider, **words)], worker=False), provider


async def sent(**fields: Any) -> tuple[str | None, dict[str, str]]:
    """The envelope's sender and the headers of one mail."""
    homing, provider = homing_with()
    async with homing:
        await homing.send(Email(**{"to": "ok@stub.test", "text": "x", **fields}))
    [envelope] = provider.calls
    return envelope.sender, dict(message_from_bytes(envelope.data).items())


@pytest.mark.parametrize(
    ("wish", "shown", "spec"),
    [
        (None, "Shop <shop@example.org>", "shop@example.org"),
        ("shop@example.org", "Shop <shop@example.org>", "shop@example.org"),
        ("Help <shop@example.org>", "Help <shop@example.org>", "shop@example.org"),
        ("Ann <ann@Example.org>", "Ann <ann@example.org>", "ann@example.org"),
        ("any@news.example.org", "any@news.example.org", "any@news.example.org"),
    ],
)
async def test_a_message_may_come_from_an_allowed_address(
    wish: str | None, shown: str, spec: str
) -> None:
    envelope_sender, headers = await sent(sender=wish)
    assert (headers["From"], envelope_sender) == (shown, spec)
    assert headers["Message-ID"].endswith(f"@{spec.partition('@')[2]}>")


async def test_a_sender_beside_the_author_gets_the_bounces() -> None:
    envelope_sender, headers = await sent(
        sender="ann@example.org", headers={"Sender": "desk@news.example.org"}
    )
    assert (headers["From"], headers["Sender"]) == ("ann@example.org", "desk@news.example.org")
    assert envelope_sender == "desk@news.example.org"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"sender": "bob@example.org"}, "from"),
        ({"sender": "ann@sub.news.example.org"}, "from"),
        ({"sender": '"ann@example.org" <bob@example.org>'}, "from"),
        ({"sender": "not an address"}, "from"),
        ({"headers": {"sender": "bob@example.org"}}, "headers.Sender"),
    ],
)
async def test_any_other_sender_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await sent(**fields)
    assert refusal.value.field == field


async def test_naming_the_sender_that_it_has_anyway_is_the_same_request() -> None:
    homing, _ = homing_with()
    async with homing:
        first = await homing.submit(Email(to="ok@stub.test", text="x"), key="1")
        again = await homing.submit(
            Email(to="ok@stub.test", text="x", sender="shop@example.org"), key="1"
        )
    assert (again.delivery_id, again.created) == (first.delivery_id, False)


async def test_a_repeated_attempt_has_the_same_sender_and_its_own_id() -> None:
    homing, provider = homing_with()
    own = {"Message-ID": "<42@example.org>"}
    async with homing:
        ticket = await homing.submit(
            Email(to="ok@stub.test", text="x", sender="ann@example.org", headers=own)
        )
        await homing.engine.run_until_idle()
        await homing.ops.resend(ticket.delivery_id, actor="ann", reason="asked for")
        await homing.engine.run_until_idle()
    first, clone = provider.calls
    assert first.sender == clone.sender == "ann@example.org"
    assert message_from_bytes(first.data)["Message-ID"] == "<42@example.org>"
    ids = message_from_bytes(clone.data).get_all("Message-ID")
    assert ids is not None
    assert len(ids) == 1
    assert ids != ["<42@example.org>"]


async def test_what_a_server_gets_is_signed_and_complete(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text(private_key())
    async with WireServer() as server:
        homing = Homing(
            "memory:",
            provider=server.url,
            sender="shop@example.org",
            allowed_senders=SENDERS,
            dkim={"example.org": ("mail", str(tmp_path / "key.pem"))},
            worker=False,
        )
        async with homing:
            await homing.send(
                Email(
                    bcc=["a..b.@docomo.ne.jp", '"john doe"@example.net'],
                    sender="Ann <ann@example.org>",
                    subject="Grüße",
                    text=".\n..\nHello\n",
                    html='<img src="cid:logo">',
                    attachments=[
                        Attachment("logo.png", b"\x89PNG", "image/png", content_id="logo"),
                        Attachment("m.eml", "Subject: ü\n\nü".encode(), "message/rfc822"),
                    ],
                )
            )
    [message] = server.messages
    data = re.sub(rb"(?m)^\.\.", b".", message)
    assert dkim.verify(data, dnsfunc=dns(mail=0))
    assert server.commands[1:4] == [
        "MAIL FROM:<ann@example.org>",
        'RCPT TO:<"a..b."@docomo.ne.jp>',
        'RCPT TO:<"john doe"@example.net>',
    ]
    assert b"docomo" not in data


class LoopMustRun:
    """A processor clock that a rendering reads: it waits until the event loop has had a turn."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.loop_thread = threading.get_ident()
        self.threads: set[int] = set()

    def __call__(self) -> float:
        self.threads.add(threading.get_ident())
        turn = threading.Event()
        self.loop.call_soon_threadsafe(turn.set)
        assert threading.get_ident() != self.loop_thread
        assert turn.wait(60)
        return 0.0


def catalog(folder: Path, clock: LoopMustRun) -> Catalog:
    place = folder / "hello" / "en"
    place.mkdir(parents=True)
    (place / "subject.tmpl").write_text("Hello")
    (place / "text.tmpl").write_text("{% for i in range(100) %}{{ i }}{% endfor %}")
    return Catalog(load_entries(folder, "templates"), Bounds(), cpu_s=clock)


async def test_a_long_rendering_leaves_the_loop_free(tmp_path: Path) -> None:
    clock = LoopMustRun()
    homing, provider = homing_with(catalog=catalog(tmp_path, clock))
    async with homing:
        await homing.send(Email(to="ok@stub.test", template_id="hello"))
    assert len(provider.calls) == 1
    assert clock.threads


async def test_so_does_the_rendering_stage_of_the_mail_service(tmp_path: Path) -> None:
    clock = LoopMustRun()
    provider = StubProvider()
    rules = MailRules(sender="shop@example.org", allowed_senders=("ann@example.org",))
    route = service_route(provider, catalog(tmp_path, clock).render, rules)
    async with Homing("memory:", routes=[route], worker=False) as homing:
        ticket = await homing.submit(
            Email(to="ok@stub.test", template_id="hello", sender="ann@example.org"),
            key="1",
            route=route.name,
        )
        assert ticket.delivery.stage == RENDER
        await homing.engine.run_until_idle()
        delivery: Delivery = await homing.ops.show(ticket.delivery_id)
        with pytest.raises(InvalidRequest, match="from"):
            await homing.submit(
                Email(to="ok@stub.test", text="x", sender="bob@example.org"),
                key="2",
                route=route.name,
            )
    assert delivery.state == "delivered"
    assert clock.threads
    assert [call.sender for call in provider.calls] == ["ann@example.org"]


def test_a_message_is_the_same_through_library_and_rest() -> None:
    """The command line takes the fields of REST."""
    from homing.web.api.schemas import AttachmentIn, EmailIn, InvitationIn

    email = set(Email.__struct_fields__)
    assert set(EmailIn.__struct_fields__) == email
    files = {name.removesuffix("_base64") for name in AttachmentIn.__struct_fields__}
    assert files == set(Attachment.__struct_fields__)
    assert InvitationIn.__struct_fields__ == Invitation.__struct_fields__


def test_a_provider_that_sends_needs_a_sender() -> None:
    with pytest.raises(SettingsError, match="sender: is required"):
        Homing(provider="smtp://127.0.0.1:2525?tls=none")

    Homing(provider="smtp://127.0.0.1:2525?tls=none", sender="shop@example.org")
    Homing(provider="stub:")


async def test_a_library_user_sets_waits_attempts_and_time_limit() -> None:
    clock = ManualClock(1_800_000_000_000)
    homing = Homing(
        "memory:",
        provider="stub:?script=451,451,451",
        retry=Retry(Ladder((10.0, 60.0)), max_attempts=3),
        timeout_s=7.0,
        worker=False,
        clock=clock,
    )
    async with homing:
        ticket = await homing.send(Email(to="ann@example.org", text="x"))
        dues_s = []
        while (await homing.ops.show(ticket.delivery_id)).state == "pending":
            due_at_ms = (await homing.ops.show(ticket.delivery_id)).due_at_ms
            dues_s.append(((due_at_ms or 0) - clock.now_ms()) / 1000)
            clock.advance(dues_s[-1])
            await homing.engine.run_until_idle()
        ended = await homing.ops.show(ticket.delivery_id)
        [stage] = homing.engine.routes["mail"].plan.stages

    assert dues_s == [10.0, 60.0]
    assert (ended.state, ended.failed_because, ended.attempts_spent) == ("failed", "exhausted", 3)
    assert stage.timeout_s == 7.0


@pytest.mark.parametrize("wrong", [{"retry": 5}, {"timeout_s": 0}, {"timeout_s": "1m"}])
def test_wrong_retries_and_time_limits_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        Homing("memory:", provider="stub:", **wrong)
