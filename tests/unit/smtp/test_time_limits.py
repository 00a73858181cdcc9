"""The time limit of a mail route and those of the SMTP client fit together."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from homing import Email, Homing
from homing.domain.delivery import Attempt
from homing.ports import Transitioned
from homing.providers.smtp.url import SmtpSettings
from homing.runtime.mail_route import SEND_TIMEOUT_S, mail_route
from tests.unit.smtp.sending import prove, provider
from tests.unit.smtp.wire_server import PIPELINING, Cut, Hang, WireServer

MAILS = 40


class FirstAttempts:
    """Collects how the first attempt of each delivery ended."""

    def __init__(self, wanted: int) -> None:
        self.ended: list[Attempt] = []
        self.all_ended = asyncio.Event()
        self._wanted = wanted

    def observe(self, events: Sequence[Transitioned]) -> None:
        self.ended += [one for event in events for one in event.ended if one.number == 1]
        if len(self.ended) == self._wanted:
            self.all_ended.set()


def test_a_route_waits_for_as_long_as_a_server_may_take() -> None:
    """RFC 5321, 4.5.3.2; the client's own limits end before that of the route."""
    smtp = SmtpSettings(host="localhost", port=25)
    assert smtp.command_timeout_s >= 300
    assert smtp.data_timeout_s >= 180
    assert smtp.dot_timeout_s >= 600
    commands = ("greeting", "MAIL", "RCPT", "DATA")
    dialogue_s = smtp.connect_timeout_s + len(commands) * smtp.command_timeout_s
    assert dialogue_s + smtp.data_timeout_s + smtp.dot_timeout_s < SEND_TIMEOUT_S


async def test_a_shorter_limit_of_the_route_leaves_only_what_had_left_in_doubt() -> None:
    first = FirstAttempts(MAILS)
    async with WireServer(dot=Hang()) as server, provider(server.url) as smtp:
        prove(smtp, latency_s=0.001)
        route = mail_route(smtp, sender="shop@example.org")
        stages = tuple(replace(stage, timeout_s=0.5) for stage in route.plan.stages)
        route = replace(route, plan=replace(route.plan, stages=stages))
        async with Homing("memory:", routes=[route], observers=[first]) as homing:
            await homing.submit_many(
                [Email(to="ann@example.org", subject="x", text=str(n)) for n in range(MAILS)]
            )
            async with asyncio.timeout(60):
                await first.all_ended.wait()
    assert {attempt.status for attempt in first.ended} == {"timed_out"}
    assert 0 < sum(attempt.maybe_sent for attempt in first.ended) < MAILS
    assert sum(attempt.maybe_sent for attempt in first.ended) == len(server.messages)


async def test_recipients_of_earlier_transactions_are_not_drawn_into_doubt() -> None:
    first = FirstAttempts(1)
    server = WireServer((*PIPELINING, "LIMITS RCPTMAX=1"), dot=["250 ok", Cut(), "250 ok"])
    async with server, provider(server.url) as smtp:
        route = mail_route(smtp, sender="shop@example.org")
        async with Homing("memory:", routes=[route], observers=[first]) as homing:
            names = ("ann@example.org", "bob@example.org", "cat@example.org")
            ticket = await homing.submit(Email(to=names, subject="x", text="y"))
            async with asyncio.timeout(60):
                await first.all_ended.wait()
            stored = await homing.store.get(ticket.delivery.id)
    assert stored is not None
    assert [r.outcome for r in stored.recipients] == ["accepted", "maybe", "maybe"]
    assert stored.maybe_sent
    assert first.ended[0].maybe_sent
