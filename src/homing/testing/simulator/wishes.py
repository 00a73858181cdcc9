"""What callers ask for: mails, events and jobs, some later, some urgent, some soon too late."""

from __future__ import annotations

import random

from msgspec import Struct

from homing.domain.message import Email, Event, Job, Message
from homing.engine.admission import Request
from homing.testing.simulator.breeds import BREEDS
from homing.testing.simulator.hosts import EPOCH_MS
from homing.testing.simulator.options import Options
from homing.testing.simulator.service import DOOMED
from homing.testing.simulator.work import POISON
from homing.testing.virtualtime import VirtualTimeLoop


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


class Wishes:
    """Makes requests."""

    def __init__(self, options: Options, chance: random.Random, loop: VirtualTimeLoop) -> None:
        self._options = options
        self._chance = chance
        self._loop = loop
        self._poison_left = options.poison if "event" in options.breeds else 0

    def request(
        self, route: str, number: int, key: str | None = None, source: str | None = None
    ) -> Request:
        chance = self._chance
        draw = chance.random()
        now_ms = EPOCH_MS + int(self._loop.time() * 1000)
        not_before_ms = now_ms + chance.randint(500, 30_000) if draw < 0.05 else None
        expires_at_ms = now_ms + chance.randint(500, 40_000) if 0.05 < draw < 0.1 else None
        return Request(
            message=self._message(route, number),
            key=key or (f"k{number}" if draw < 0.97 else None),
            source=source or f"s{number % 3}",
            priority=2 if draw > 0.2 else 1 + number % 4,
            not_before_ms=not_before_ms,
            expires_at_ms=expires_at_ms,
        )

    def _message(self, route: str, number: int) -> Message:
        breed, chance = BREEDS[route], self._chance
        if breed.kind == "event":
            event_type = "ping" if chance.random() < 0.8 else "paid"
            if self._poison_left and event_type == "ping":
                self._poison_left -= 1
                return Event(event_type, {POISON: True, "n": number})
            return Event(event_type, number)
        if breed.kind == "job":
            return Job(route, number)
        if breed.kind == "digest":
            return Job(route, [f"r{number}.{n}" for n in range(chance.randint(1, 3))])
        recipients = 1
        if breed.answers_apart and chance.random() < 0.3:
            recipients = chance.randint(2, 3)
        name = DOOMED if chance.random() < self._options.doomed else "r"
        return Email(
            to=tuple(f"{name}{number}.{n}" for n in range(recipients)), text=f"hi {number}"
        )
