"""One name, several servers behind it: each gets only what it has offered itself."""

import asyncio
from collections.abc import Sequence

from homing.domain.failure import Failure
from homing.ports import Accepted
from tests.unit.smtp.sending import accepted, envelope, failed, prove, provider, send
from tests.unit.smtp.wire_server import Client, Hang, WireServer

EIGHT_BIT = "Subject: x\r\n\r\nGrüße\r\n".encode()
RICH = ("PIPELINING", "8BITMIME", "SMTPUTF8")
POOR = ("PIPELINING",)


class Alternating:
    """Every second connection is offered less; `first` comes first."""

    def __init__(self, first: Sequence[str], second: Sequence[str]) -> None:
        self._offers = (first, second)
        self._known: dict[int, Sequence[str]] = {}

    def __call__(self, client: Client) -> Sequence[str]:
        return self._known.setdefault(id(client), self._offers[len(self._known) % 2])

    def offered(self, client: Client) -> Sequence[str]:
        return self._known[id(client)]


async def test_eight_bits_go_only_where_they_are_welcome() -> None:
    offers = Alternating(RICH, POOR)
    async with WireServer(hello_to=offers) as server, provider(server.url + "&pool=4") as smtp:
        prove(smtp, latency_s=0.001)
        letters = [envelope(data=EIGHT_BIT) for _ in range(40)] + [envelope() for _ in range(40)]
        outcomes = await asyncio.gather(*(send(smtp, letter) for letter in letters))
    assert all(isinstance(outcome, Accepted) for outcome in outcomes)
    poor = [client for client in server.clients if offers.offered(client) is POOR]
    assert poor
    assert not any(b"\xc3" in bytes(client.raw) for client in poor)
    assert len(server.messages) == 80


async def test_a_recipient_in_utf8_is_not_refused_while_another_connection_takes_it() -> None:
    names = ("ann@example.org", "jürgen@example.org")
    offers = Alternating(RICH, POOR)
    async with WireServer(hello_to=offers) as server, provider(server.url + "&pool=2") as smtp:
        prove(smtp, latency_s=0.001)
        outcomes = await asyncio.gather(*(send(smtp, envelope(*names)) for _ in range(20)))
    assert all(isinstance(outcome, Accepted) and not outcome.refused for outcome in outcomes)
    assert all("SMTPUTF8" in command for command in server.commands if command.startswith("MAIL"))


async def test_what_no_connection_can_take_is_refused() -> None:
    """The server that could take it has gone between prepare and commit."""
    offers = Alternating(RICH, POOR)
    url = "&pool=1&idle_timeout_s=0.01"
    async with WireServer(hello_to=offers) as server, provider(server.url + url) as smtp:
        ready = await smtp.prepare(envelope(data=EIGHT_BIT))
        assert not isinstance(ready, Failure)
        await server.heard("QUIT")
        outcome = await ready.commit()
    assert isinstance(outcome, Failure)
    assert (outcome.error_class, outcome.maybe_sent) == ("eightbit_unsupported", False)
    assert server.messages == []


async def test_prepare_asks_all_connections() -> None:
    offers = Alternating(POOR, RICH)
    async with WireServer(hello_to=offers) as server, provider(server.url + "&pool=2") as smtp:
        await asyncio.gather(*(accepted(smtp) for _ in range(8)))
        assert len(server.clients) == 2
        await accepted(smtp, envelope(data=EIGHT_BIT))


async def test_after_a_refused_sender_no_empty_message_is_handed_over() -> None:
    """A server that takes recipients and DATA nevertheless would deliver it."""
    server = WireServer(mail=["550 5.7.1 not you", "250 ok"])
    async with server, provider(server.url + "&pool=1") as smtp:
        outcome = await failed(smtp)
        assert (outcome.error_class, outcome.maybe_sent) == ("sender_refused", False)
        assert server.messages == []
        await accepted(smtp)
    assert len(server.messages) == 1


async def test_the_session_goes_on_where_the_server_refuses_all_of_it() -> None:
    server = WireServer(mail=["550 5.7.1 not you", "250 ok"], data=["503 no", "354 go"])
    async with server, provider(server.url + "&pool=1") as smtp:
        await failed(smtp)
        await accepted(smtp)
    assert len(server.clients) == 1


async def test_nothing_hangs_when_the_only_fitting_connection_dies() -> None:
    offers = Alternating(RICH, POOR)
    server = WireServer(hello_to=offers, mail=[Hang(), "250 ok"])
    async with server, provider(server.url + "&pool=2&command_timeout_s=0.2") as smtp:
        prove(smtp, latency_s=0.001)
        outcomes = await asyncio.gather(
            *(send(smtp, envelope(data=EIGHT_BIT)) for _ in range(4)), return_exceptions=True
        )
    assert all(isinstance(outcome, Accepted | Failure) for outcome in outcomes)


async def test_a_server_without_utf8_gets_the_recipients_it_can_take() -> None:
    names = ("ann@example.org", "jürgen@example.org")
    async with WireServer(POOR) as server, provider(server.url) as smtp:
        outcome = await accepted(smtp, envelope(*names))
    assert list(outcome.refused) == ["jürgen@example.org"]
    assert b"\xc3" not in server.raw
