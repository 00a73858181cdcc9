"""T1, T2, T3, T16: no field of an envelope can say anything to the server but itself."""

import itertools
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from homing.domain.failure import Failure
from homing.ports import Accepted
from tests.unit.smtp.sending import DATA, accepted, envelope, failed, provider, send
from tests.unit.smtp.wire_server import LOCK_STEP, PIPELINING, WireServer

BOTH = pytest.mark.parametrize("features", [PIPELINING, LOCK_STEP], ids=["pipelined", "lock-step"])
LINE_ENDS = (b"\r\n", b"\n", b"\r", b"\r\r\n", b"\n\r")
SEPARATORS = (
    *("\r\n", "\n", "\r", "\0", "\x0b", "\x0c"),
    *("\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"),
)
PLACES = ("{}ann@example.org", "an{}n@example.org", "ann@exam{}ple.org", "ann@example.org{}")
EVIL = "RCPT TO:<evil@example.org>"


@BOTH
@pytest.mark.parametrize("around", list(itertools.product(LINE_ENDS, LINE_ENDS)))
async def test_no_end_of_data_can_be_smuggled_in(
    features: tuple[str, ...], around: tuple[bytes, bytes]
) -> None:
    """T3: the server takes all 25 spellings for the end; one DATA is still one message."""
    before, after = around
    smuggled = before + b"." + after + b"MAIL FROM:<evil@example.org>\r\nDATA\r\nevil\r\n"
    any_end = b"(?:%b)" % b"|".join(re.escape(end) for end in sorted(LINE_ENDS, key=len)[::-1])
    server = WireServer(features, end_of_data=any_end + rb"\." + any_end)
    async with server, provider(server.url + "&pool=1") as smtp:
        outcome = await send(smtp, envelope(data=DATA + b"body" + smuggled))
        await accepted(smtp)
    sent = 1 if isinstance(outcome, Accepted) else 0
    assert len(server.messages) == sent + 1
    assert not any("evil" in command for command in server.commands)
    if isinstance(outcome, Failure):
        assert (outcome.error_class, outcome.disposition) == ("content_invalid", "reject")
        assert re.search(rb"\r(?!\n)", smuggled)
        assert b"evil" not in server.raw


@pytest.mark.parametrize(
    "data", [b".", b".\r\n", b"\r\n.", b"\n.\n", b"a\r\n.\r\n.\r\n", b"\r\n\0.\r\n", b""]
)
async def test_contents_that_are_nearly_an_end(data: bytes) -> None:
    async with WireServer() as server, provider(server.url + "&pool=1") as smtp:
        outcome = await send(smtp, envelope(data=data))
        await accepted(smtp)
    assert len(server.messages) == (2 if isinstance(outcome, Accepted) else 1)
    assert isinstance(outcome, Accepted) is (b"\0" not in data)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
async def test_no_separator_in_an_address_reaches_the_wire(place: str, separator: str) -> None:
    """T1, T2: such an address is refused, not mended; who is sound still gets the mail."""
    utf8 = (*PIPELINING, "SMTPUTF8")
    address = place.format(separator + EVIL)
    async with WireServer(utf8) as server, provider(server.url) as smtp:
        as_recipient = await accepted(smtp, envelope("bob@example.org", address))
        alone = await failed(smtp, envelope(address))
        as_sender = await failed(smtp, envelope(sender=address))
    assert as_recipient.refused[address].permanent
    assert (alone.error_class, alone.disposition) == ("recipient_refused", "reject")
    assert list(alone.refused) == [address]
    assert (as_sender.error_class, as_sender.disposition) == ("sender_invalid", "reject")
    assert b"evil" not in server.raw
    assert [line for line in server.commands if line.startswith("RCPT")] == [
        "RCPT TO:<bob@example.org>"
    ]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(local=st.text(min_size=1, max_size=20), domain=st.text(min_size=1, max_size=20))
async def test_what_is_on_the_wire_is_the_address_that_was_checked(local: str, domain: str) -> None:
    """T2: byte for byte, or not at all."""
    address = f"{local}@{domain}"
    async with WireServer((*PIPELINING, "SMTPUTF8")) as server, provider(server.url) as smtp:
        outcome = await send(smtp, envelope(address))
    said = [line for line in server.commands if line.startswith("RCPT")]
    assert said == ([f"RCPT TO:<{address}>"] if isinstance(outcome, Accepted) else [])


async def test_addresses_beyond_ascii_need_a_server_that_takes_them() -> None:
    """T16: with SMTPUTF8 they go out as they are; without, they are refused by name."""
    names = ("jürgen@example.org", "ann@example.org")
    async with WireServer((*PIPELINING, "SMTPUTF8")) as server, provider(server.url) as smtp:
        assert (await accepted(smtp, envelope(*names))).refused == {}
    assert "MAIL FROM:<shop@example.org> SMTPUTF8" in server.commands
    assert "RCPT TO:<jürgen@example.org>" in server.commands

    async with WireServer() as server, provider(server.url) as smtp:
        outcome = await accepted(smtp, envelope(*names))
        alone = await failed(smtp, envelope(names[0]))
        sender = await failed(smtp, envelope(sender=names[0]))
        header = await failed(smtp, envelope(data="Subject: Grüße\r\n\r\nx\r\n".encode()))
    assert list(outcome.refused) == [names[0]]
    assert "SMTPUTF8" in (outcome.refused[names[0]].detail or "")
    assert (alone.error_class, alone.disposition) == ("recipient_refused", "reject")
    assert (sender.error_class, sender.disposition) == ("smtputf8_unsupported", "reject")
    assert (header.error_class, header.disposition) == ("smtputf8_unsupported", "reject")
    assert server.messages == [DATA]
    assert server.raw.isascii()


async def test_a_message_for_all_needs_smtputf8_only_when_something_in_it_does() -> None:
    async with WireServer((*PIPELINING, "SMTPUTF8")) as server, provider(server.url) as smtp:
        await accepted(smtp)
    assert "MAIL FROM:<shop@example.org>" in server.commands


async def test_what_the_server_says_is_shown_without_controls_and_addresses() -> None:
    """T11, T20: an answer is quoted in logs and consoles."""
    nasty = "550 5.1.1 <ann@example.org> \x1b[31mred\x07 Authorization: Bearer abcdefghijkl"
    async with WireServer(rcpt=nasty, data="503 x") as server, provider(server.url) as smtp:
        outcome = await failed(smtp)
    refusal = outcome.refused["ann@example.org"]
    for text in (outcome.detail, refusal.detail or ""):
        assert "\x1b" not in text
        assert "ann@example.org" not in text
        assert "abcdefghijkl" not in text
