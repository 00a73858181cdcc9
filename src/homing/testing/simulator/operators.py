"""The people at the desk: they replay, resend, dismiss and repair, some with a double click."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from homing.domain.delivery import Delivery
from homing.domain.errors import Refused
from homing.engine.desk import Desk
from homing.testing.simulator.breeds import BREEDS
from homing.testing.simulator.disk import WatchedDisk
from homing.testing.simulator.hosts import Life
from homing.testing.simulator.options import Options
from homing.testing.simulator.service import NOBODY, Service
from homing.testing.virtualtime import VirtualTimeLoop

ACTOR, REASON = "ann", "because"

# How often each verb is used, out of all clicks.
VERBS: tuple[tuple[str, int], ...] = (
    ("replay", 40),
    ("resend", 14),
    ("dismiss", 10),
    ("restore", 8),
    ("cancel", 8),
    ("confirm", 6),
    ("amend", 5),
    ("restart", 5),
    ("park", 2),
    ("unpark", 2),
)


class Click(Struct):
    """One intent of an operator; a double click is one intent asked twice."""

    verb: str
    subject: str
    times: int
    cycle: int = 0
    done: list[str] = field(default_factory=list)
    refused: int = 0
    unknown: int = 0


class Operators:
    def __init__(
        self,
        options: Options,
        chance: random.Random,
        loop: VirtualTimeLoop,
        disk: WatchedDisk,
        services: dict[str, Service],
        any_life: Callable[[], Life | None],
    ) -> None:
        self._options = options
        self._chance = chance
        self._loop = loop
        self._disk = disk
        self._services = services
        self._any_life = any_life
        self.clicks: list[Click] = []

    def act(self) -> None:
        verbs, weights = zip(*VERBS, strict=True)
        [verb] = self._chance.choices(verbs, weights)
        subject = self._subject(verb)
        if subject is None:
            return
        stored = self._disk.deliveries.get(subject)
        times = 2 if self._chance.random() < 0.35 else 1
        click = Click(verb, subject, times, stored.cycle if stored else 0)
        self.clicks.append(click)
        number = len(self.clicks)
        for _ in range(times):
            life = self._any_life()
            if life is not None:
                self._loop.spawn(life.party, self._click(life, click, number), verb)

    def unpark_all(self, life: Life) -> None:
        """The desk is cleared: what a person parked, a person must unpark."""
        parked = self._disk.facts.get("parked_by_person", {})
        for fact in [f for f in parked.values() if (f.value or {}).get("by") == ACTOR]:
            click = Click("unpark", fact.key, 1)
            self._loop.spawn(life.party, self._click(life, click, 0), "unpark")

    def _subject(self, verb: str) -> str | None:
        if verb in ("park", "unpark"):
            return self._chance.choice(self._options.breeds)
        found = self._candidates(verb)
        return self._chance.choice(found) if found else None

    def _candidates(self, verb: str) -> Sequence[str]:
        disk = self._disk
        if verb == "cancel":
            return list(disk.open)[-50:]
        if verb == "resend":
            return list(disk.deliveries)[-50:]
        if verb == "restore":
            recent = list(disk.deliveries.values())
            return [d.id for d in recent if d.state == "dismissed"][-20:]
        if verb == "confirm":
            return [i for i in disk.dead if self._has_evidence(disk.deliveries[i])][-20:]
        return list(disk.dead)[-50:]

    def _has_evidence(self, delivery: Delivery) -> bool:
        """They confirm only what the service's own ledger shows, for every recipient."""
        if delivery.failed_because != "uncertain" or delivery.route not in self._services:
            return False
        entries = self._services[delivery.route].ledger.get(delivery.id, ())
        has_it = {address for entry in entries for address in entry.recipients}
        return has_it.issuperset([r.address for r in delivery.recipients] or NOBODY)

    async def _click(self, life: Life, click: Click, number: int) -> None:
        engine = life.engine
        if engine is None:
            return
        try:
            click.done.append(await self._use(engine.desk, click, number))
        except Refused:
            click.refused += 1
        except Exception:
            click.unknown += 1

    async def _use(self, desk: Desk, click: Click, number: int) -> str:
        verb, subject = click.verb, click.subject
        who = {"actor": ACTOR, "reason": REASON}
        special: dict[str, dict[str, object]] = {
            "resend": {"key": f"click-{number}"},
            "confirm": {"evidence": "seen in the ledger"},
            "amend": {"payload": self._payload(subject)} if verb == "amend" else {},
            # What they saw when they clicked.
            "replay": {"cycle": click.cycle},
        }
        done: Delivery | None = await getattr(desk, verb)(subject, **who, **special.get(verb, {}))
        return subject if done is None else done.id

    def _payload(self, subject: str) -> bytes:
        """The same message; a mail's is only bytes to the engine, and may be changed."""
        payload = self._disk.contents[subject].payload
        plain = BREEDS[self._disk.deliveries[subject].route].kind == "mail"
        return b"!" + payload if plain else payload
