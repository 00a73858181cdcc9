"""Servers that say no, not now, or goodbye, at every place where they can."""

import asyncio

import pytest

from homing.ports import Accepted
from tests.unit.smtp.sending import DATA, accepted, envelope, failed, prove, provider, send
from tests.unit.smtp.wire_server import LOCK_STEP, PIPELINING, Cut, WireServer

BOTH = pytest.mark.parametrize("features", [PIPELINING, LOCK_STEP], ids=["pipelined", "lock-step"])


@BOTH
@pytest.mark.parametrize(
    ("verb", "answer", "error_class", "disposition"),
    [
        ("mail", "451 4.3.0 later", "deferred", "retry"),
        ("mail", "550 5.7.1 not you", "sender_refused", "route_fault"),
        ("mail", "530 5.7.0 login first", "auth_failed", "route_fault"),
        ("rcpt", "450 4.2.0 busy", "recipient_deferred", "retry"),
        ("rcpt", "550 5.1.1 nobody", "recipient_refused", "reject"),
        ("data", "451 4.3.0 later", "deferred", "retry"),
        ("data", "554 5.7.1 no", "content_refused", "reject"),
        ("dot", "451 4.7.1 slow down", "rate_limited", "route_fault"),
        ("dot", "554 5.7.1 spam", "content_refused", "reject"),
    ],
)
async def test_an_answer_at_each_phase_and_the_session_goes_on(
    features: tuple[str, ...], verb: str, answer: str, error_class: str, disposition: str
) -> None:
    """M-186, M-187: temporary is tried again, permanent is not; nothing was sent either way."""
    usual = {"mail": "250 ok", "rcpt": "250 ok", "data": "354 go", "dot": "250 ok"}[verb]
    answers = {verb: [answer, usual]}
    if features is PIPELINING and verb in ("mail", "rcpt"):
        answers["data"] = ["503 5.5.1 no", "354 go"]
    server = WireServer(features, by_verb=answers)
    async with server, provider(server.url + "&pool=1") as smtp:
        outcome = await failed(smtp)
        await accepted(smtp)
    assert (outcome.error_class, outcome.disposition) == (error_class, disposition)
    assert outcome.code == answer[:3]
    assert outcome.detail.startswith(answer[4:9])
    assert not outcome.maybe_sent
    assert len(server.clients) == 1
    assert server.messages[-1] == DATA


@pytest.mark.parametrize("verb", ["mail", "rcpt", "data"])
async def test_421_in_mid_session_moves_the_message_to_a_new_connection(verb: str) -> None:
    usual = {"mail": "250 ok", "rcpt": "250 ok", "data": "354 go"}[verb]
    goodbye = Cut(after="421 4.3.2 closing")
    server = WireServer(by_verb={verb: [usual, goodbye, usual]})
    async with server, provider(server.url) as smtp:
        await accepted(smtp)
        await accepted(smtp)
    assert len(server.clients) == 2
    assert len(server.messages) == 2


async def test_421_to_the_first_message_of_a_connection_is_a_failure() -> None:
    server = WireServer(mail=Cut(after="421 4.7.0 slow down"))
    async with server, provider(server.url) as smtp:
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.code) == ("rate_limited", "421")
    assert len(server.clients) == 1


async def test_421_to_the_dot_is_an_answer_and_no_doubt() -> None:
    server = WireServer(dot=Cut(after="421 4.3.2 closing"))
    async with server, provider(server.url) as smtp:
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.disposition) == ("deferred", "retry")
    assert not outcome.maybe_sent


async def test_421_while_idle_is_not_taken_for_an_answer() -> None:
    farewell = ["250 ok\r\n421 4.4.2 idle too long", "250 ok"]
    async with WireServer(dot=farewell) as server, provider(server.url) as smtp:
        await accepted(smtp)
        await accepted(smtp)
    assert len(server.clients) == 2


async def test_a_no_that_is_followed_by_hanging_up_is_still_a_no() -> None:
    server = WireServer(rcpt=Cut(after="550 5.7.1 you are blocked"))
    async with server, provider(server.url) as smtp:
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.disposition) == ("recipient_refused", "reject")


async def test_data_refused_behind_a_pipelined_envelope_sends_no_content() -> None:
    server = WireServer(data=["451 4.3.0 no", "354 go"])
    async with server, provider(server.url + "&pool=1") as smtp:
        prove(smtp, latency_s=0.01)
        first, second = await asyncio.gather(send(smtp), send(smtp, envelope("bob@example.org")))
    assert not isinstance(first, Accepted)
    assert isinstance(second, Accepted)
    assert len(server.messages) == 1
    assert "RSET" in server.commands


async def test_a_greeting_of_many_lines_and_a_wordy_server() -> None:
    greeting = "220-welcome\r\n220-no spam\r\n220 ready"
    dot = "250-2.0.0 thank you\r\n250 2.0.0 Ok: queued as 77"
    async with WireServer(greeting=greeting, dot=dot) as server, provider(server.url) as smtp:
        outcome = await accepted(smtp)
    assert outcome.receipt.notification_id == "77"


@pytest.mark.parametrize(
    "noise",
    ["\x00\x01\x02", "HTTP/1.1 400 Bad Request", "250", "x" * 5000, "250-a\r\n" * 300],
    ids=["binary", "http", "wrong code", "endless line", "endless reply"],
)
async def test_a_server_that_speaks_no_smtp(noise: str) -> None:
    async with WireServer(greeting=noise) as server, provider(server.url) as smtp:
        outcome = await failed(smtp)
    assert not outcome.maybe_sent
    assert outcome.error_class in ("protocol_error", "connect_refused")
    assert server.messages == []
