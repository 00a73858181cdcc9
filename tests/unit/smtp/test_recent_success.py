"""A relay that refuses one address, and a relay that refuses all."""

import pytest

from homing.domain.failure import Refusal
from tests.unit.smtp.sending import accepted, envelope, failed, provider
from tests.unit.smtp.wire_server import WireServer

DENIED = "554 5.7.1 Relay access denied"
NOT_OURS = "550 5.7.1 not your address"
LISTED = "554 5.7.1 Client host blocked using bl.example"


@pytest.mark.parametrize(
    ("answers", "error_class"),
    [
        ({"rcpt": DENIED}, "relay_denied"),
        ({"mail": NOT_OURS}, "sender_refused"),
        ({"rcpt": LISTED}, "client_blocked"),
    ],
)
async def test_where_nothing_gets_through_the_route_is_at_fault(
    answers: dict[str, str], error_class: str
) -> None:
    server = WireServer(by_verb={**answers, "data": "503 5.5.1 no"})
    async with server, provider(server.url) as smtp:
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.disposition) == (error_class, "route_fault")


@pytest.mark.parametrize(
    ("verb", "answer", "disposition"),
    [
        ("rcpt", DENIED, "reject"),
        ("mail", NOT_OURS, "reject"),
        # Our address can be put on a list at any moment, and a rate limit begins at one.
        ("rcpt", LISTED, "route_fault"),
        ("mail", "550 5.4.5 Daily user sending limit exceeded", "route_fault"),
        ("rcpt", "454 4.7.1 Relay access denied", "route_fault"),
    ],
)
async def test_where_other_mail_gets_through_the_address_is_at_fault(
    verb: str, answer: str, disposition: str
) -> None:
    server = WireServer(by_verb={verb: ["250 ok", answer], "data": ["354 go", "503 5.5.1 no"]})
    async with server, provider(server.url) as smtp:
        await accepted(smtp)
        outcome = await failed(smtp)
    assert outcome.disposition == disposition


async def test_a_relay_that_takes_one_of_two_recipients_denies_the_other_for_good() -> None:
    server = WireServer(rcpt=["250 ok", DENIED])
    async with server, provider(server.url) as smtp:
        outcome = await accepted(smtp, envelope("ann@example.org", "bob@example.com"))
    assert outcome.refused == {
        "bob@example.com": Refusal(permanent=True, code="554", detail="5.7.1 Relay access denied")
    }
