"""Servers that take few messages per connection: no attempt is lost over that."""

import asyncio

import pytest

from homing.ports import Accepted
from tests.unit.smtp.sending import accepted, envelope, failed, prove, provider, send
from tests.unit.smtp.wire_server import LOCK_STEP, PIPELINING, Answer, Client, Cut, WireServer

BOTH = pytest.mark.parametrize("features", [PIPELINING, LOCK_STEP], ids=["pipelined", "lock-step"])


class ClosesAfter:
    """Ends a connection at the MAIL that follows this many messages."""

    def __init__(self, messages: int, farewell: Answer) -> None:
        self.messages = messages
        self.farewell = farewell

    def __call__(self, verb: str, client: Client) -> Answer | None:
        if verb == "mail" and len(client.messages) >= self.messages:
            return self.farewell
        return None


@BOTH
@pytest.mark.parametrize(
    "farewell",
    [Cut(after="421 4.7.0 too many messages in this connection"), Cut()],
    ids=["421", "cut"],
)
@pytest.mark.parametrize("messages", [1, 2, 5])
async def test_every_message_is_accepted_in_its_first_attempt(
    features: tuple[str, ...], farewell: Answer, messages: int
) -> None:
    server = WireServer(features, to_client=ClosesAfter(messages, farewell))
    async with server, provider(server.url) as smtp:
        prove(smtp, latency_s=0.001)
        outcomes = await asyncio.gather(*(send(smtp) for _ in range(200)))
    assert [outcome for outcome in outcomes if not isinstance(outcome, Accepted)] == []
    assert len(server.messages) == 200


async def test_the_number_is_learned_and_kept_to() -> None:
    server = WireServer(to_client=ClosesAfter(2, Cut(after="421 4.7.0 enough")))
    async with server, provider(server.url + "&pool=1") as smtp:
        for _ in range(20):
            await accepted(smtp)
    farewells = [client for client in server.clients if client.commands[-1].startswith("QUIT")]
    assert [len(client.messages) for client in server.clients] == [2] * 10
    # Two were needed to learn it.
    assert len(farewells) == 8


async def test_a_single_restart_of_the_server_teaches_nothing() -> None:
    server = WireServer(mail=["250 ok", "250 ok", Cut(), "250 ok"])
    async with server, provider(server.url + "&pool=1") as smtp:
        for _ in range(8):
            await accepted(smtp)
    assert [len(client.messages) for client in server.clients] == [2, 6]


async def test_a_message_that_breaks_every_connection_is_not_tried_for_ever() -> None:
    def breaks(verb: str, client: Client) -> Answer | None:
        return Cut() if verb == "mail" and "<bad@" in client.commands[-1] else None

    async with WireServer(to_client=breaks) as server, provider(server.url) as smtp:
        await accepted(smtp)
        outcome = await failed(smtp, envelope(sender="bad@example.org"))
    assert (outcome.error_class, outcome.maybe_sent) == ("connection_lost", False)
    assert len(server.clients) == 2
