"""Postfix, Exim, OpenSMTPD and aiosmtpd as they are: what goes in comes out, once, unchanged."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from homing.ports import Accepted
from homing.providers.smtp import SmtpProvider
from tests.servers import smtp_sink
from tests.unit.smtp import mta
from tests.unit.smtp.sending import PASSWORD, USER, accepted, envelope, failed, provider, send
from tests.unit.smtp.wire_server import WireServer

# Everything that a server on the way could take for something else.
BODY = b"first\r\n.\r\n..\r\n.dot\r\n\r\n" + b"x" * 900 + b"\r\nMAIL FROM:<a@b>\r\nlast\r\n"
STUFFED = BODY.replace(b"\r\n.", b"\r\n..")
HEADERS = (
    b"From: <shop@example.org>\r\nTo: <ann@example.org>\r\nSubject: %b\r\n"
    b"Message-ID: <%b@example.org>\r\nDate: Mon, 02 Mar 2026 10:00:00 +0000\r\n\r\n"
)

Start = Callable[[int], AbstractContextManager[mta.Mta]]
SERVERS = pytest.mark.parametrize("start", [mta.postfix, mta.exim, mta.opensmtpd])


def message(name: bytes = b"one") -> bytes:
    return HEADERS % (name, name) + BODY


@asynccontextmanager
async def relay(start: Start) -> AsyncIterator[tuple[SmtpProvider, WireServer, mta.Mta]]:
    """Us, the mail server, and behind it one that keeps what comes out."""
    async with WireServer() as sink:
        with start(sink.port) as server:
            async with provider(server.url) as smtp:
                yield smtp, sink, server


@SERVERS
async def test_a_message_comes_out_as_it_went_in(start: Start) -> None:
    async with relay(start) as (smtp, sink, server):
        outcome = await accepted(smtp, envelope(data=message()))
        await sink.got(messages=1)
        assert outcome.receipt.notification_id in server.log()
    assert outcome.receipt.notification_id
    (received,) = sink.messages
    headers, _, body = received.partition(b"\r\n\r\n")
    assert body == STUFFED
    assert headers.endswith(message().partition(b"\r\n\r\n")[0])


@SERVERS
async def test_many_at_once_each_come_out_once(start: Start) -> None:
    names = [b"m%d" % number for number in range(100)]
    async with relay(start) as (smtp, sink, _):
        outcomes = await asyncio.gather(
            *(send(smtp, envelope(data=message(name))) for name in names)
        )
        await sink.got(messages=100)
    receipts = [o.receipt.notification_id for o in outcomes if isinstance(o, Accepted)]
    assert len(set(receipts)) == 100
    subjects = [line for m in sink.messages for line in m.split(b"\r\n") if b"Subject: " in line]
    assert sorted(subjects) == sorted(b"Subject: " + name for name in names)


@SERVERS
async def test_one_refused_recipient_does_not_hold_up_the_other(start: Start) -> None:
    async with relay(start) as (smtp, sink, _):
        outcome = await accepted(smtp, envelope("ann@example.org", "nobody@example.org"))
        alone = await failed(smtp, envelope("nobody@example.org"))
        await accepted(smtp, envelope("bob@example.org"))
        await sink.got(messages=2)
    assert [(name, r.permanent, r.code) for name, r in outcome.refused.items()] == [
        ("nobody@example.org", True, "550")
    ]
    assert (alone.error_class, alone.disposition, alone.code) == (
        "recipient_refused",
        "reject",
        "550",
    )
    recipients = [line for line in sink.commands if line.startswith("RCPT")]
    assert sorted(line.split(" ")[1] for line in recipients) == [
        "TO:<ann@example.org>",
        "TO:<bob@example.org>",
    ]


@pytest.mark.parametrize("start", [mta.postfix, mta.exim])
async def test_more_recipients_than_it_takes_at_once_are_all_reached(start: Start) -> None:
    names = [f"r{number}@example.org" for number in range(mta.RECIPIENT_LIMIT * 3 - 5)]
    async with relay(start) as (smtp, sink, _):
        outcome = await accepted(smtp, envelope(*names, data=message()))
        await sink.got(messages=3)
    assert outcome.refused == {}
    reached = [line[9:-1] for line in sink.commands if line.startswith("RCPT")]
    assert sorted(reached) == sorted(names)


@SERVERS
async def test_a_message_too_large_is_found_before_it_is_sent(start: Start) -> None:
    async with relay(start) as (smtp, sink, _):
        data = message() + b"x" * 70 + b"\r\n"
        outcome = await failed(smtp, envelope(data=data * 1100))
        await accepted(smtp, envelope(data=message() + b"0123456789\r\n" * 50_000))
        await sink.got(messages=1)
    assert len(sink.messages) == 1
    assert (outcome.error_class, outcome.disposition) == ("message_too_large", "reject")


@pytest.mark.parametrize("start", [mta.postfix, mta.exim])
async def test_a_certificate_that_no_one_vouches_for_is_not_trusted(start: Start) -> None:
    async with WireServer() as sink:
        with start(sink.port) as server:
            async with provider(server.url.partition("?")[0]) as smtp:
                outcome = await failed(smtp)
            assert "shop@example.org" not in server.log()
    assert (outcome.error_class, outcome.disposition) == ("tls_failed", "route_fault")


async def test_a_wrong_password_is_a_fault_of_the_route() -> None:
    async with WireServer() as sink:
        with mta.exim(sink.port) as server:
            async with provider(server.url.replace(PASSWORD, "wrong-one")) as smtp:
                outcome = await failed(smtp)
            assert "<=" not in server.log()
    assert (outcome.error_class, outcome.disposition, outcome.code) == (
        "auth_failed",
        "route_fault",
        "535",
    )


LOGIN = f"{USER.replace('@', '%40')}:{PASSWORD}@"


async def test_exim_takes_every_way_to_log_in() -> None:
    async with WireServer() as sink:
        with mta.exim(sink.port) as server:
            for auth in ("plain", "login", "cram-md5"):
                async with provider(f"{server.url}&auth={auth}") as smtp:
                    await accepted(smtp)
                assert f"A={auth.partition('-')[0]}:{USER}" in server.log()


async def test_postfix_with_cyrus_sasl_takes_every_way_to_log_in() -> None:
    """Left to choose, the strongest is taken."""
    async with WireServer() as sink:
        with mta.postfix(sink.port) as server:
            url = server.url.replace("://", f"://{LOGIN}")
            async with provider(url) as smtp:
                await accepted(smtp)
            assert server.log().count("sasl_method=SCRAM-SHA-256") == 1
            for auth in ("scram-sha-256", "plain", "login", "cram-md5"):
                async with provider(f"{url}&auth={auth}") as smtp:
                    await accepted(smtp)
                assert f"sasl_method={auth.upper()}, sasl_username={USER}" in server.log()
                async with provider(f"{url.replace(PASSWORD, 'wrong-one')}&auth={auth}") as smtp:
                    outcome = await failed(smtp)
                assert (outcome.error_class, outcome.code) == ("auth_failed", "535")


async def test_postfix_sees_a_client_certificate(tmp_path: Path) -> None:
    leaf = trustme.CA().issue_cert("shop.example.org")
    leaf.private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
    with mta.postfix(sink_port=1) as server:
        for options, seen in (
            ("", "Anonymous TLS connection established"),
            (f"&client_cert={tmp_path / 'client.pem'}", "Untrusted TLS connection established"),
        ):
            assert seen not in server.log()
            async with provider(f"{server.url}{options}") as smtp:
                assert await smtp.check() is None
            assert seen in server.log()


async def test_a_server_without_starttls_gets_nothing() -> None:
    """M-180."""
    async with WireServer() as sink:
        with mta.opensmtpd(sink.port) as server:
            async with provider(server.url.partition("?")[0]) as smtp:
                outcome = await failed(smtp)
            assert "shop@example.org" not in server.log()
    assert (outcome.error_class, outcome.disposition) == ("starttls_missing", "route_fault")


class Mailbox:
    """aiosmtpd's handler: keeps what it is given and refuses nobody@example.org."""

    def __init__(self) -> None:
        self.contents: list[bytes] = []
        self.logins: list[bytes] = []

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: SMTP, _session: Any, given: Any, address: str, options: list[str]
    ) -> str:
        if address == "nobody@example.org":
            return "550 5.1.1 no such mailbox"
        given.rcpt_tos.append(address)
        given.rcpt_options.extend(options)
        return "250 2.1.5 ok"

    async def handle_DATA(self, _server: SMTP, _session: Any, given: Any) -> str:  # noqa: N802 - aiosmtpd's name
        self.contents.append(given.content)
        return f"250 2.0.0 Ok: queued as {len(self.contents)}"

    def log_in(
        self, _server: SMTP, _session: Any, _envelope: Any, mechanism: str, login: LoginPassword
    ) -> AuthResult:
        self.logins.append(mechanism.encode())
        return AuthResult(
            success=(login.login, login.password) == (USER.encode(), PASSWORD.encode())
        )


@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN"])
async def test_aiosmtpd_behind_tls_and_login(tmp_path: Path, mechanism: str) -> None:
    authority, mailbox = trustme.CA(), Mailbox()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    listener = await asyncio.get_running_loop().create_server(
        lambda: SMTP(
            mailbox,
            tls_context=context,
            require_starttls=True,
            authenticator=mailbox.log_in,
            auth_required=True,
            auth_exclude_mechanism={"PLAIN", "LOGIN"} - {mechanism},
            enable_SMTPUTF8=True,
        ),
        "127.0.0.1",
        0,
    )
    port = listener.sockets[0].getsockname()[1]
    login = f"{USER.replace('@', '%40')}:{PASSWORD}"
    url = f"smtp://{login}@127.0.0.1:{port}?ca_file={tmp_path / 'ca.pem'}&pool=2"
    async with provider(url) as smtp:
        outcomes = await asyncio.gather(
            *(send(smtp, envelope(data=message(b"m%d" % n))) for n in range(20))
        )
        partly = await accepted(smtp, envelope("jürgen@example.org", "nobody@example.org"))
    listener.close()
    assert all(isinstance(outcome, Accepted) for outcome in outcomes)
    assert sorted(mailbox.contents[:20]) == sorted(message(b"m%d" % n) for n in range(20))
    assert list(partly.refused) == ["nobody@example.org"]
    assert mailbox.logins == [mechanism.encode()] * 2


async def test_thousands_into_smtp_sink_each_counted_once() -> None:
    with smtp_sink() as sink:
        async with provider(f"{sink.url}?tls=none") as smtp:
            outcomes = await asyncio.gather(
                *(send(smtp, envelope(data=message())) for _ in range(3000))
            )
        assert all(isinstance(outcome, Accepted) for outcome in outcomes)
        assert sink.messages() == 3000
