"""T4: whoever stands between us and the server gets no credential and no byte of a message."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from homing.domain.failure import Failure
from homing.ports import Accepted
from homing.providers.smtp import SmtpProvider, SmtpSettings, opening, parse_url
from homing.providers.smtp.handshake import handshake
from homing.providers.smtp.steps import StartTls
from homing.providers.smtp.tls import tls_context
from tests.unit.smtp.sending import PASSWORD, SECRETS, accepted, envelope, failed, provider, send
from tests.unit.smtp.wire_server import PIPELINING, Cut, WireServer

AUTH = (*PIPELINING, "AUTH PLAIN LOGIN")
LOGIN = f"shop%40example.org:{PASSWORD}@"
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


def context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(made)
    return made


def good(authority: trustme.CA) -> ssl.SSLContext:
    return context(authority.issue_cert("127.0.0.1", "localhost"))


def unknown_authority(_: trustme.CA) -> ssl.SSLContext:
    return good(trustme.CA())


def other_name(authority: trustme.CA) -> ssl.SSLContext:
    return context(authority.issue_cert("mail.example.org"))


def expired(authority: trustme.CA) -> ssl.SSLContext:
    return context(
        authority.issue_cert(
            "127.0.0.1", not_before=LONG_AGO, not_after=LONG_AGO + timedelta(days=9)
        )
    )


def url(server: WireServer, ca_file: Path, *, scheme: str = "smtp") -> str:
    return f"{scheme}://{LOGIN}127.0.0.1:{server.port}?ca_file={ca_file}"


def check_nothing_leaked(server: WireServer) -> None:
    words = (*SECRETS, b"AUTH", b"MAIL", b"RCPT", b"Hello", b"ann@example.org")
    assert not [word for word in words if word in server.raw]
    assert server.messages == []


async def outcome_of(server: WireServer, ca_file: Path, *, scheme: str = "smtp") -> Failure:
    async with server, provider(url(server, ca_file, scheme=scheme)) as smtp:
        return await failed(smtp)


async def test_with_a_good_certificate_everything_goes_behind_tls(
    authority: trustme.CA, ca_file: Path
) -> None:
    """M-179: STARTTLS comes before AUTH and MAIL FROM."""
    server = WireServer(AUTH, tls=good(authority))
    async with server, provider(url(server, ca_file)) as smtp:
        await accepted(smtp)
    verbs = [command.split()[0] for command in server.commands]
    assert verbs == ["EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL", "RCPT", "DATA", "QUIT"]
    assert server.clients[0].secure


async def test_implicit_tls(authority: trustme.CA, ca_file: Path) -> None:
    server = WireServer(AUTH, tls=good(authority), implicit=True)
    async with server, provider(url(server, ca_file, scheme="smtps")) as smtp:
        await accepted(smtp)
        await accepted(smtp, envelope(data=b"big: 1\r\n\r\n" + b"0123456789\r\n" * 100_000))
    assert [command.split()[0] for command in server.commands[:2]] == ["EHLO", "AUTH"]
    assert len(server.messages[1]) > 1_000_000


@pytest.mark.parametrize(
    ("answers", "error_class"),
    [
        ({"ehlo": "250 wire.test"}, "starttls_missing"),
        ({"ehlo": "250-wire.test\r\n250 AUTH PLAIN LOGIN"}, "starttls_missing"),
        ({"ehlo": "250-wire.test\r\n250 XTARTTLS"}, "starttls_missing"),
        ({"ehlo": "502 what", "helo": "250 wire.test"}, "starttls_missing"),
        ({"starttls": "501 5.5.4 no"}, "tls_failed"),
        ({"starttls": "250 not what was asked"}, "tls_failed"),
    ],
)
async def test_a_server_that_will_not_start_tls(
    authority: trustme.CA, ca_file: Path, answers: dict[str, str], error_class: str
) -> None:
    """M-180: the route is at fault, and in the `mail` design that ends the delivery."""
    server = WireServer(AUTH, tls=good(authority), by_verb=answers)
    outcome = await outcome_of(server, ca_file)
    assert (outcome.error_class, outcome.disposition) == (error_class, "route_fault")
    assert not outcome.maybe_sent
    check_nothing_leaked(server)


@pytest.mark.parametrize(
    "answer", ["454 4.7.0 TLS not available", "421 4.3.2 restarting", "421 4.7.0 too many"]
)
async def test_a_server_that_cannot_start_tls_now_is_tried_again(
    authority: trustme.CA, ca_file: Path, answer: str
) -> None:
    server = WireServer(AUTH, tls=good(authority), starttls=answer)
    outcome = await outcome_of(server, ca_file)
    assert (outcome.error_class, outcome.disposition) == ("deferred", "retry")
    check_nothing_leaked(server)


@pytest.mark.parametrize(
    "injected",
    [
        {"starttls": "220 go\r\n250-wire.test\r\n250 AUTH PLAIN"},
        {"starttls": "220 go\r\n250 "},
        {"starttls": "220 go\r\n\x16\x03\x01"},
        {"greeting": "220 hi\r\n250-wire.test\r\n250 STARTTLS"},
        {"ehlo": "250-wire.test\r\n250 STARTTLS\r\n220 go"},
    ],
)
async def test_a_reply_slipped_in_before_the_handshake_is_an_attack(
    authority: trustme.CA, ca_file: Path, injected: dict[str, str]
) -> None:
    server = WireServer(AUTH, tls=good(authority), by_verb=injected)
    outcome = await outcome_of(server, ca_file)
    assert (outcome.error_class, outcome.disposition) == ("tls_failed", "route_fault")
    check_nothing_leaked(server)


@pytest.mark.parametrize("make", [unknown_authority, other_name, expired])
@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_a_certificate_that_cannot_be_trusted(
    authority: trustme.CA,
    ca_file: Path,
    make: Callable[[trustme.CA], ssl.SSLContext],
    scheme: str,
) -> None:
    server = WireServer(AUTH, tls=make(authority), implicit=scheme == "smtps")
    outcome = await outcome_of(server, ca_file, scheme=scheme)
    assert (outcome.error_class, outcome.disposition) == ("tls_failed", "route_fault")
    check_nothing_leaked(server)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1 is deprecated")
async def test_a_server_that_knows_only_tls_1_0(authority: trustme.CA, ca_file: Path) -> None:
    old = good(authority)
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1
    old.set_ciphers("ALL:@SECLEVEL=0")
    outcome, heard = await outcome_on_plain_socket(old, f"?ca_file={ca_file}")
    assert (outcome.error_class, outcome.disposition) == ("tls_failed", "route_fault")
    assert heard.splitlines()[1:] == [b"STARTTLS"]


async def outcome_on_plain_socket(tls: ssl.SSLContext, options: str) -> tuple[Failure, bytes]:
    """Of a send to a server that sends the alert that says why; asyncio's would not."""
    heard = bytearray()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            for reply in (b"220 old\r\n", b"250-old\r\n250 STARTTLS\r\n", b"220 go\r\n"):
                connection.sendall(reply)
                if reply != b"220 go\r\n":
                    heard.extend(connection.recv(4096))
            # Closed with bytes unread, it would be reset, and the alert would be lost.
            with connection.dup() as kept, contextlib.suppress(OSError):
                with contextlib.suppress(ssl.SSLError):
                    heard.extend(tls.wrap_socket(connection, server_side=True).recv(4096))
                while kept.recv(4096):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.get_running_loop().run_in_executor(None, serve, listener)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        async with provider(f"smtp://{LOGIN}{address}{options}") as smtp:
            outcome = await failed(smtp)
        await serving
    return outcome, bytes(heard)


async def test_plain_smtp_where_implicit_tls_is_meant(ca_file: Path) -> None:
    server = WireServer(AUTH)
    outcome = await outcome_of(server, ca_file, scheme="smtps")
    assert (outcome.error_class, outcome.disposition) == ("tls_failed", "route_fault")
    check_nothing_leaked(server)


@pytest.mark.parametrize("tls", [True, False])
async def test_what_comes_behind_the_last_reply_of_a_handshake_is_never_believed(
    monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    """A segment of its own, a moment late: told apart neither by chance nor by speed."""

    def talkative(**settings: Any) -> Any:
        session = handshake(**settings)
        step = next(session)
        while True:
            if isinstance(step, StartTls):
                ears[-1].data_received(b"250 early\r\n")
            try:
                step = session.send((yield step))
            except StopIteration as end:
                ears[-1].data_received(b"250 early\r\n")
                return end.value

    class Ear(opening._Ear):
        def __init__(self) -> None:
            super().__init__()
            ears.append(self)

    ears: list[Ear] = []
    monkeypatch.setattr(opening, "_Ear", Ear)
    monkeypatch.setattr(opening, "handshake", talkative)
    server = WireServer(AUTH, tls=good(trustme.CA()) if tls else None)
    async with server:
        address = f"127.0.0.1:{server.port}"
        async with provider(f"smtp://{address}?{'verify=off' if tls else 'tls=none'}") as smtp:
            outcome = await failed(smtp)
    expected = ("tls_failed", "route_fault") if tls else ("protocol_error", "retry")
    assert (outcome.error_class, outcome.disposition) == expected
    check_nothing_leaked(server)


def test_the_oldest_version_is_set_whatever_the_system_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lax = ssl.create_default_context()
    lax.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: lax)
    made = tls_context(parse_url("smtp://mail.example.org"))
    assert made is not None
    assert made.minimum_version == ssl.TLSVersion.TLSv1_2
    assert made.check_hostname
    assert made.verify_mode == ssl.CERT_REQUIRED


async def test_a_line_cut_in_the_handshake_is_tried_again(
    authority: trustme.CA, ca_file: Path
) -> None:
    server = WireServer(AUTH, tls=good(authority), starttls=Cut(after="220 go"))
    outcome = await outcome_of(server, ca_file)
    assert (outcome.error_class, outcome.disposition) == ("connection_lost", "retry")
    check_nothing_leaked(server)


async def test_what_was_offered_in_the_clear_counts_no_more(
    authority: trustme.CA, ca_file: Path
) -> None:
    hellos = ["250-x\r\n250-STARTTLS\r\n250-SIZE 1\r\n250 AUTH PLAIN", "250-x\r\n250 AUTH LOGIN"]
    server = WireServer(tls=good(authority), ehlo=hellos, auth=["334 user", "334 word", "235 in"])
    async with server, provider(url(server, ca_file)) as smtp:
        await accepted(smtp)
    assert "AUTH LOGIN" in server.commands
    assert not any("SIZE=" in command for command in server.commands)


async def test_verify_off_takes_any_certificate_by_consent() -> None:
    server = WireServer(AUTH, tls=good(trustme.CA()))
    async with server, provider(f"smtp://127.0.0.1:{server.port}?verify=off") as smtp:
        await accepted(smtp)
    assert server.clients[0].secure


@pytest.mark.parametrize(
    ("auth", "error_class", "disposition"),
    [
        ("535 5.7.8 bad credentials", "auth_failed", "route_fault"),
        ("534 5.7.9 mechanism too weak", "auth_failed", "route_fault"),
        ("454 4.7.0 try later", "deferred", "retry"),
    ],
)
async def test_a_refused_login_says_nothing_of_the_message_and_shows_no_secret(
    authority: trustme.CA, ca_file: Path, auth: str, error_class: str, disposition: str
) -> None:
    server = WireServer(AUTH, tls=good(authority), auth=f"{auth} password={PASSWORD}")
    outcome = await outcome_of(server, ca_file)
    assert (outcome.error_class, outcome.disposition) == (error_class, disposition)
    assert PASSWORD not in repr(outcome)
    assert b"MAIL" not in server.raw


async def test_credentials_and_a_server_without_login(authority: trustme.CA, ca_file: Path) -> None:
    server = WireServer(tls=good(authority))
    outcome = await outcome_of(server, ca_file)
    assert (outcome.error_class, outcome.disposition) == ("auth_unavailable", "route_fault")


async def test_only_a_user_means_no_login(authority: trustme.CA, ca_file: Path) -> None:
    """M-181."""
    server = WireServer(AUTH, tls=good(authority))
    async with server:
        half = f"smtp://shop@127.0.0.1:{server.port}?ca_file={ca_file}"
        async with provider(half) as smtp:
            await accepted(smtp)
    assert not any(command.startswith("AUTH") for command in server.commands)


def client_files(folder: Path, issuer: trustme.CA) -> str:
    leaf = issuer.issue_cert("shop.example.org")
    leaf.private_key_pem.write_to_path(folder / "client.key")
    leaf.cert_chain_pems[0].write_to_path(folder / "client.pem")
    return f"&client_cert={folder / 'client.pem'}&client_key={folder / 'client.key'}"


def demanding(authority: trustme.CA) -> ssl.SSLContext:
    """Knows its clients by their certificates."""
    made = good(authority)
    made.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(made)
    return made


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
@pytest.mark.parametrize("login", ["", "&auth=external"])
async def test_a_client_certificate_opens_the_door(
    authority: trustme.CA, ca_file: Path, tmp_path: Path, scheme: str, login: str
) -> None:
    implicit = scheme == "smtps"
    server = WireServer((*AUTH, "AUTH EXTERNAL"), tls=demanding(authority), implicit=implicit)
    async with server:
        place = f"{scheme}://127.0.0.1:{server.port}?ca_file={ca_file}"
        async with provider(place + client_files(tmp_path, authority) + login) as smtp:
            await accepted(smtp)
    logins = [command for command in server.commands if command.startswith("AUTH")]
    assert logins == (["AUTH EXTERNAL ="] if login else [])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("issuer", ["none", "other"])
async def test_without_the_right_client_certificate_nothing_is_said(
    authority: trustme.CA,
    ca_file: Path,
    tmp_path: Path,
    issuer: str,
    version: ssl.TLSVersion,
) -> None:
    strict = demanding(authority)
    strict.maximum_version = version
    options = "" if issuer == "none" else client_files(tmp_path, trustme.CA())
    outcome, heard = await outcome_on_plain_socket(strict, f"?ca_file={ca_file}{options}")
    assert (outcome.error_class, outcome.disposition) == ("tls_failed", "route_fault")
    assert heard.splitlines()[1:] == [b"STARTTLS"]


@pytest.mark.parametrize(
    ("is_private", "problem"), [(True, None), (False, "only a private address")]
)
async def test_without_tls_a_named_host_is_spoken_to_only_in_a_private_network(
    monkeypatch: pytest.MonkeyPatch, is_private: bool, problem: str | None
) -> None:
    monkeypatch.setattr(opening, "is_loopback", lambda _: False)
    monkeypatch.setattr(opening, "_is_private", lambda _: is_private)
    async with WireServer() as server:
        consent = SmtpSettings(
            host="localhost", port=server.port, tls="none", plaintext_host="localhost"
        )
        smtp = SmtpProvider(consent)
        outcome = await send(smtp)
        await smtp.close()
    if problem is None:
        assert isinstance(outcome, Accepted)
        return
    assert isinstance(outcome, Failure)
    assert (outcome.error_class, outcome.disposition) == ("tls_failed", "route_fault")
    assert problem in outcome.detail
    check_nothing_leaked(server)


@pytest.mark.parametrize(
    ("address", "is_private"),
    [
        ("172.17.0.2", True),
        ("10.1.2.3", True),
        ("fd00::1%eth0", True),
        ("8.8.8.8", False),
        ("2001:4860:4860::8888", False),
    ],
)
def test_what_a_private_network_is(address: str, is_private: bool) -> None:
    assert opening._is_private(address) is is_private


async def test_without_tls_a_name_that_leads_off_loopback_is_not_spoken_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opening, "is_loopback", lambda _: False)
    server = WireServer(AUTH)
    async with server, provider(f"smtp://{LOGIN}localhost:{server.port}?tls=none") as smtp:
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.disposition) == ("tls_failed", "route_fault")
    check_nothing_leaked(server)
