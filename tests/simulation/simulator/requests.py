"""What callers ask for: mails, events and jobs, some later, some urgent, some soon too late."""

from __future__ import annotations

import random

from msgspec import Struct

from homing.domain.message import Email, Event, Job, Message
from homing.engine.intake.admission import Request
from homing.testing.clocks import moment
from tests.simulation.simulator.handler_runs import AT_ONCE, POISON
from tests.simulation.simulator.hosts import EPOCH_MS
from tests.simulation.simulator.options import Options
from tests.simulation.simulator.route_kinds import ROUTE_KINDS
from tests.simulation.simulator.service import ALWAYS_DEFERRED
from tests.simulation.virtualtime import VirtualTimeLoop


class Ask(Struct):
    """One wish of one caller, and what came of it."""

    number: int
    route: str
    request: Request
    variant: int = 0
    tries: int = 0
    is_settled: bool = False
    told_id: str | None = None
    made_it: bool = False
    must_be_new: bool = False


class RequestMaker:
    """Makes requests."""

    def __init__(self, options: Options, rng: random.Random, loop: VirtualTimeLoop) -> None:
        self._options = options
        self._rng = rng
        self._loop = loop
        self._poison_left = options.poison if "event" in options.routes else 0

    def request(
        self, route: str, number: int, key: str | None = None, source: str | None = None
    ) -> Request:
        rng = self._rng
        draw = rng.random()
        now_ms = EPOCH_MS + int(self._loop.time() * 1000)
        send_at = moment(now_ms + rng.randint(500, 30_000)) if draw < 0.05 else None
        expires_at = moment(now_ms + rng.randint(500, 40_000)) if 0.05 < draw < 0.1 else None
        return Request(
            message=self._message(route, number),
            key=key or (f"k{number}" if draw < 0.97 else None),
            source=source or f"s{number % 3}",
            priority=2 if draw > 0.2 else 1 + number % 4,
            send_at=send_at,
            expires_at=expires_at,
        )

    def _message(self, route: str, number: int) -> Message:
        route_kind, rng = ROUTE_KINDS[route], self._rng
        if route_kind.carries == "event":
            [event_type] = rng.choices(("ping", AT_ONCE, "paid"), (40, 45, 15))
            if self._poison_left and event_type == "ping":
                self._poison_left -= 1
                return Event(event_type, {POISON: True, "n": number})
            return Event(event_type, number)
        if route_kind.carries == "job":
            return Job(route, number)
        if route_kind.carries == "digest":
            return Job(route, [f"r{number}.{n}" for n in range(rng.randint(1, 3))])
        recipients = 1
        if route_kind.answers_apart and rng.random() < 0.3:
            recipients = rng.randint(2, 3)
        name = ALWAYS_DEFERRED if rng.random() < self._options.always_deferred else "r"
        return Email(
            to=tuple(f"{name}{number}.{n}" for n in range(recipients)), text=f"hi {number}"
        )
