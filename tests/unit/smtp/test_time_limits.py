"""The time limit of a mail route and those of the SMTP client fit together."""

import asyncio

from msgspec.structs import replace

from homing import Email, Homing
from homing.mail_route import SEND_TIMEOUT_S, mail_route
from homing.providers.smtp.url import SmtpSettings
from tests.unit.smtp.sending import prove, provider
from tests.unit.smtp.wire_server import Hang, WireServer

MAILS = 40
POOL = 8


def test_a_route_waits_for_as_long_as_a_server_may_take() -> None:
    """RFC 5321, 4.5.3.2; the client's own limits come first."""
    smtp = SmtpSettings(host="localhost", port=25)
    assert smtp.command_timeout_s >= 300
    assert smtp.data_timeout_s >= 180
    assert smtp.dot_timeout_s >= 600
    dialogue_s = smtp.connect_timeout_s + 4 * smtp.command_timeout_s
    assert dialogue_s + smtp.dot_timeout_s + smtp.data_timeout_s / 2 > 1800
    assert dialogue_s + smtp.dot_timeout_s < SEND_TIMEOUT_S + smtp.connect_timeout_s + 1


async def test_a_shorter_limit_of_the_route_leaves_only_what_had_left_in_doubt() -> None:
    """200 mails behind a mute server were all called "maybe sent"; 8 of them had left."""
    async with WireServer(dot=Hang()) as server, provider(f"{server.url}&pool={POOL}") as smtp:
        prove(smtp, latency_s=0.001)
        route = mail_route(smtp, sender="shop@example.org")
        [stage] = route.plan.stages
        stage = replace(stage, timeout_s=0.5)
        route = replace(route, plan=replace(route.plan, stages=(stage,)))
        async with Homing("memory:", routes=[route]) as homing:
            tickets = await homing.submit_many(
                [
                    (None, Email(to="ann@example.org", subject="x", text=str(number)))
                    for number in range(MAILS)
                ]
            )
            ids = [ticket.delivery.id for ticket in tickets]
            async with asyncio.timeout(60):
                while not all(found := [await homing.store.attempts(one) for one in ids]):
                    await asyncio.sleep(0.05)
            first = [attempts[0] for attempts in found]
    assert {attempt.status for attempt in first} == {"timed_out"}
    assert sum(attempt.maybe_sent for attempt in first) == len(server.messages)
