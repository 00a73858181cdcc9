"""A limit on how much we send holds back the whole route, and costs no message its attempts."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from homing import Email, Homing
from homing.ports import Transitioned
from homing.runtime.mail_route import mail_route
from tests.unit.smtp.sending import provider
from tests.unit.smtp.wire_server import WireServer

MAILS = 12
ACCEPTED_BEFORE_THE_LIMIT = 5
REFUSED = 10


class DailyLimit:
    """Accepts some, refuses some, and then the next day has come."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, _line: str) -> str:
        self.asked += 1
        after = self.asked - ACCEPTED_BEFORE_THE_LIMIT
        if 0 < after <= REFUSED:
            return "550 5.4.5 Daily user sending limit exceeded"
        return "250 2.1.0 ok"


class Told:
    def __init__(self) -> None:
        self.delivered = 0
        self.all_delivered = asyncio.Event()

    def observe(self, events: Sequence[Transitioned]) -> None:
        self.delivered += sum(event.delivery.state == "delivered" for event in events)
        if self.delivered == MAILS:
            self.all_delivered.set()


async def test_mail_over_a_daily_limit_waits_and_is_all_delivered() -> None:
    limit, told = DailyLimit(), Told()
    async with WireServer([], mail=limit) as server, provider(server.url + "&pool=1") as smtp:
        route = replace(mail_route(smtp, sender="shop@example.org"), probe_every_s=0.01)
        async with Homing("memory:", routes=[route], observers=[told]) as homing:
            tickets = [
                await homing.submit(Email(to="ann@example.org", subject="x", text=str(number)))
                for number in range(MAILS)
            ]
            async with asyncio.timeout(30):
                await told.all_delivered.wait()
            attempts = [await homing.store.attempts(ticket.delivery.id) for ticket in tickets]
    counted = [sum(attempt.counted for attempt in made) for made in attempts]
    assert counted == [1] * MAILS
    refusals = [a for made in attempts for a in made if a.status == "route_fault"]
    assert {refusal.error_class for refusal in refusals} == {"rate_limited"}
    assert len(refusals) == REFUSED
