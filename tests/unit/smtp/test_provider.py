"""The provider over a server that sees every byte."""

import asyncio

import pytest

from homing.domain.failure import Failure, Refusal
from homing.ports import Accepted
from homing.providers.smtp import connection
from tests.unit.smtp.sending import DATA, accepted, envelope, failed, prove, provider, send
from tests.unit.smtp.wire_server import LOCK_STEP, PIPELINING, Cut, WireServer

BOTH = pytest.mark.parametrize("features", [PIPELINING, LOCK_STEP], ids=["pipelined", "lock-step"])


@BOTH
async def test_a_message_is_sent_as_it_is_and_its_queue_id_is_the_receipt(
    features: tuple[str, ...],
) -> None:
    async with WireServer(features) as server, provider(server.url) as smtp:
        outcome = await accepted(smtp)
    assert outcome.receipt.notification_id == "ABC123"
    assert outcome.refused == {}
    assert server.messages == [DATA]
    assert server.commands[1:] == [
        "MAIL FROM:<shop@example.org>",
        "RCPT TO:<ann@example.org>",
        "DATA",
        "QUIT",
    ]


async def test_prepare_says_nothing_about_the_message_and_abandon_leaves_it_so() -> None:
    async with WireServer() as server, provider(server.url) as smtp:
        ready = await smtp.prepare(envelope())
        assert not isinstance(ready, Failure)
        await ready.abandon()
        assert [command.split()[0] for command in server.commands] == ["EHLO"]


async def test_the_content_is_dot_stuffed_and_every_line_ends_in_crlf() -> None:
    data = b".first\nSubject: x\n\n.\n..\n.last"
    async with WireServer() as server, provider(server.url) as smtp:
        await accepted(smtp, envelope(data=data))
    assert server.messages == [b"..first\r\nSubject: x\r\n\r\n..\r\n...\r\n..last\r\n"]


@BOTH
async def test_connections_are_reused(features: tuple[str, ...]) -> None:
    async with WireServer(features) as server, provider(server.url) as smtp:
        for _ in range(5):
            await accepted(smtp)
    assert len(server.clients) == 1
    assert len(server.messages) == 5


@BOTH
async def test_many_at_once_use_the_pool_and_no_more(features: tuple[str, ...]) -> None:
    async with WireServer(features) as server, provider(server.url + "&pool=3") as smtp:
        outcomes = await asyncio.gather(
            *(send(smtp, envelope(data=b"n: %d\r\n\r\n" % number)) for number in range(100))
        )
    assert all(isinstance(outcome, Accepted) for outcome in outcomes)
    assert len(server.clients) == 3
    assert sorted(server.messages) == sorted(b"n: %d\r\n\r\n" % number for number in range(100))


async def test_the_next_envelope_goes_out_behind_the_dot() -> None:
    async with WireServer() as server, provider(server.url + "&pool=1") as smtp:
        prove(smtp, latency_s=0.01)
        await accepted(smtp)
        await asyncio.gather(*(send(smtp) for _ in range(3)))
    assert any(b"Hello\r\n.\r\nMAIL FROM:" in read for read in server.clients[0].reads)


async def test_behind_the_dot_of_a_slow_server_nothing_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "PIPELINE_BELOW_S", 0.0)
    async with WireServer() as server, provider(server.url + "&pool=1") as smtp:
        prove(smtp, latency_s=0.01)
        await accepted(smtp)
        await asyncio.gather(*(send(smtp) for _ in range(3)))
    assert len(server.messages) == 4
    assert not any(b".\r\nMAIL FROM:" in read for read in server.clients[0].reads)


async def test_a_connection_serves_a_bounded_number_of_messages() -> None:
    url = "&pool=1&messages_per_connection=2"
    async with WireServer() as server, provider(server.url + url) as smtp:
        for _ in range(5):
            await accepted(smtp)
    assert [len(client.messages) for client in server.clients] == [2, 2, 1]
    assert all(client.commands[-1] == "QUIT" for client in server.clients)


async def test_an_idle_connection_is_closed_with_quit() -> None:
    async with WireServer() as server, provider(server.url + "&idle_timeout_s=0.02") as smtp:
        await accepted(smtp)
        await server.heard("QUIT")
        await accepted(smtp)
    assert len(server.clients) == 2


@BOTH
async def test_who_is_refused_is_named_and_the_others_get_it(features: tuple[str, ...]) -> None:
    """R-028: one bad recipient fails alone."""
    answers = ["250 ok", "550 5.1.1 no such <bob@example.org>", "450 4.2.1 busy", "250 ok"]
    names = ("ann@example.org", "bob@example.org", "cat@example.org", "dan@example.org")
    async with WireServer(features, rcpt=answers) as server, provider(server.url) as smtp:
        outcome = await accepted(smtp, envelope(*names))
    assert outcome.refused == {
        "bob@example.org": Refusal(permanent=True, code="550", detail="5.1.1 no such <[address]>"),
        "cat@example.org": Refusal(permanent=False, code="450", detail="4.2.1 busy"),
    }
    assert server.messages == [DATA]


@BOTH
@pytest.mark.parametrize("data", ["554 5.5.1 no valid recipients", "354 go ahead"])
async def test_when_all_are_refused_nothing_is_sent_and_the_session_goes_on(
    features: tuple[str, ...], data: str
) -> None:
    answers = ["550 5.1.1 no", "551 5.1.6 moved", "250 ok"]
    server = WireServer(
        features,
        rcpt=answers,
        data=[data, "354 go ahead"] if features is PIPELINING else "354 go ahead",
        dot=["554 5.5.1 no valid recipients", "250 ok"]
        if features is PIPELINING and data.startswith("354")
        else "250 ok",
    )
    async with server, provider(server.url + "&pool=1") as smtp:
        outcome = await failed(smtp, envelope("ann@example.org", "bob@example.org"))
        await accepted(smtp)
    assert (outcome.error_class, outcome.disposition) == ("recipient_refused", "reject")
    assert outcome.code == "550"
    assert not outcome.maybe_sent
    assert [refusal.code for refusal in outcome.refused.values()] == ["550", "551"]
    assert len(server.clients) == 1
    assert server.messages[-1] == DATA
    assert b"Hello" not in b"".join(server.messages[:-1])


async def test_one_who_may_come_later_makes_the_whole_a_retry() -> None:
    answers = ["550 5.1.1 no", "452 4.5.3 too many"]
    async with WireServer(rcpt=answers, data="503 no") as server, provider(server.url) as smtp:
        outcome = await failed(smtp, envelope("ann@example.org", "bob@example.org"))
    assert (outcome.error_class, outcome.disposition) == ("recipient_deferred", "retry")
    assert [refusal.permanent for refusal in outcome.refused.values()] == [True, False]


async def test_refusals_are_kept_when_the_message_is_put_off() -> None:
    server = WireServer(rcpt=["250 ok", "550 5.1.1 no"], dot="451 4.3.0 later")
    async with server, provider(server.url) as smtp:
        outcome = await failed(smtp, envelope("ann@example.org", "bob@example.org"))
    assert (outcome.error_class, outcome.disposition, outcome.code) == ("deferred", "retry", "451")
    assert list(outcome.refused) == ["bob@example.org"]
    assert outcome.detail == "4.3.0 later"


async def test_a_message_beyond_the_servers_size_never_reaches_the_wire() -> None:
    async with WireServer((*PIPELINING, "SIZE 100")) as server, provider(server.url) as smtp:
        outcome = await failed(smtp, envelope(data=b"x" * 200))
        await accepted(smtp, envelope(data=b"x" * 90))
    assert (outcome.error_class, outcome.disposition) == ("message_too_large", "reject")
    assert "MAIL FROM:<shop@example.org> SIZE=92" in server.commands
    assert len(server.messages) == 1


async def test_eight_bit_content_is_announced_or_refused() -> None:
    data = "Subject: x\r\n\r\nGrüße\r\n".encode()
    async with WireServer(["8BITMIME"]) as server, provider(server.url) as smtp:
        await accepted(smtp, envelope(data=data))
    assert "MAIL FROM:<shop@example.org> BODY=8BITMIME" in server.commands
    async with WireServer([]) as server, provider(server.url) as smtp:
        outcome = await failed(smtp, envelope(data=data))
    assert (outcome.error_class, outcome.disposition) == ("eightbit_unsupported", "reject")
    assert server.messages == []


async def test_a_large_message_arrives_whole() -> None:
    data = b"Subject: big\r\n\r\n" + b"0123456789abcdef\r\n" * 200_000
    async with WireServer() as server, provider(server.url + "&pool=1") as smtp:
        await asyncio.gather(*(accepted(smtp, envelope(data=data)) for _ in range(2)))
    assert server.messages == [data, data]


async def test_the_null_sender_and_the_default_sender() -> None:
    async with WireServer() as server, provider(server.url + "&sender=me@example.org") as smtp:
        await accepted(smtp, envelope(sender=""))
        await accepted(smtp, envelope(sender=None))
    assert [c for c in server.commands if c.startswith("MAIL")] == [
        "MAIL FROM:<>",
        "MAIL FROM:<me@example.org>",
    ]
    async with WireServer() as server, provider(server.url) as smtp:
        outcome = await failed(smtp, envelope(sender=None))
    assert (outcome.error_class, outcome.disposition) == ("sender_missing", "route_fault")


async def test_close_says_goodbye_and_refuses_what_comes_later() -> None:
    async with WireServer() as server:
        async with provider(server.url) as smtp:
            await accepted(smtp)
            ready = await smtp.prepare(envelope())
            assert not isinstance(ready, Failure)
        assert server.commands[-1] == "QUIT"
        late = await ready.commit()
        assert isinstance(late, Failure)
        assert not late.maybe_sent
        assert isinstance(await smtp.prepare(envelope()), Failure)


async def test_a_server_that_has_only_helo_is_spoken_to_in_lock_step() -> None:
    async with WireServer(ehlo="502 what", helo="250 hi") as server, provider(server.url) as smtp:
        await accepted(smtp)
    assert [command.split()[0] for command in server.commands[:2]] == ["EHLO", "HELO"]


async def test_a_stale_connection_is_replaced_without_a_failure() -> None:
    server = WireServer(mail=["250 ok", Cut(), "250 ok"])
    async with server, provider(server.url) as smtp:
        await accepted(smtp)
        await accepted(smtp)
    assert len(server.clients) == 2
    assert len(server.messages) == 2


async def test_a_prepared_send_is_used_once() -> None:
    async with WireServer() as server, provider(server.url) as smtp:
        ready = await smtp.prepare(envelope())
        assert not isinstance(ready, Failure)
        await ready.commit()
        with pytest.raises(RuntimeError):
            await ready.commit()
    assert len(server.messages) == 1
