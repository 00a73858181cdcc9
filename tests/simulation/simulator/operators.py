"""The people at the ops: they replay, resend, dismiss and repair, some with a double click."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from homing.domain.delivery import Delivery
from homing.domain.errors import Refused
from homing.engine.ops.operations import Operations
from tests.simulation.simulator.hosts import SimProcess
from tests.simulation.simulator.options import Options
from tests.simulation.simulator.pauses import Pauses
from tests.simulation.simulator.route_kinds import ROUTE_KINDS
from tests.simulation.simulator.service import NO_ADDRESS, Service
from tests.simulation.simulator.watched_disk import WatchedDisk
from tests.simulation.virtualtime import VirtualTimeLoop

ACTOR, REASON = "ann", "because"
PAUSE_VERBS = ("pause", "resume")

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
    ("pause", 2),
    ("resume", 2),
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
        rng: random.Random,
        loop: VirtualTimeLoop,
        disk: WatchedDisk,
        services: dict[str, Service],
        pauses: Pauses,
        any_process: Callable[[], SimProcess | None],
    ) -> None:
        self._options = options
        self._rng = rng
        self._loop = loop
        self._disk = disk
        self._services = services
        self.pauses = pauses
        self._any_process = any_process
        self.clicks: list[Click] = []

    def act(self) -> None:
        verbs, weights = zip(*VERBS, strict=True)
        [verb] = self._rng.choices(verbs, weights)
        subject = self._subject(verb)
        if subject is None:
            return
        stored = self._disk.deliveries.get(subject)
        times = 2 if self._rng.random() < 0.35 else 1
        click = Click(verb, subject, times, stored.cycle if stored else 0)
        self.clicks.append(click)
        number = len(self.clicks)
        for _ in range(times):
            process = self._any_process()
            if process is not None:
                self._loop.spawn(process.actor, self._click(process, click, number), verb)

    def resume_all(self, process: SimProcess) -> None:
        """Nothing stays paused: what a person paused, a person must resume."""
        for route in self.pauses.ever:
            click = Click("resume", route, 1)
            self._loop.spawn(process.actor, self._click(process, click, 0), "resume")

    def _subject(self, verb: str) -> str | None:
        if verb in PAUSE_VERBS:
            return self._rng.choice(self._options.routes)
        found = self._candidates(verb)
        return self._rng.choice(found) if found else None

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
        return has_it.issuperset([r.address for r in delivery.recipients] or NO_ADDRESS)

    def pause_for(self, route: str, for_s: float) -> None:
        """Somebody pauses a route, and resumes it after a while."""
        self._send_click(Click("pause", route, 1))
        self._loop.call_outside(for_s, lambda: self._send_click(Click("resume", route, 1)))

    def _send_click(self, click: Click) -> None:
        process = self._any_process()
        if process is not None:
            self._loop.spawn(process.actor, self._click(process, click, 0), click.verb)

    async def _click(self, process: SimProcess, click: Click, number: int) -> None:
        if click.verb not in PAUSE_VERBS:
            await self._try(process, click, number)
            return
        self.pauses.clicks(click.subject)
        await self._try(process, click, number)
        self.pauses.clicked(click.subject, paused=click.verb == "pause" and bool(click.done))

    async def _try(self, process: SimProcess, click: Click, number: int) -> None:
        engine = process.engine
        if engine is None:
            return
        try:
            click.done.append(await self._use(engine.ops, click, number))
        except Refused:
            click.refused += 1
        except Exception:
            click.unknown += 1

    async def _use(self, ops: Operations, click: Click, number: int) -> str:
        verb, subject = click.verb, click.subject
        who = {"actor": ACTOR, "reason": REASON}
        special: dict[str, dict[str, object]] = {
            "resend": {"key": f"click-{number}"},
            "confirm": {"evidence": "seen in the ledger"},
            "amend": {"payload": self._payload(subject)} if verb == "amend" else {},
            # What they saw when they clicked.
            "replay": {"cycle": click.cycle},
        }
        done: object = await getattr(ops, verb)(subject, **who, **special.get(verb, {}))
        return done.id if isinstance(done, Delivery) else subject

    def _payload(self, subject: str) -> bytes:
        """The same message; a mail's is only bytes to the engine, and may be changed."""
        payload = self._disk.contents[subject].payload
        plain = ROUTE_KINDS[self._disk.deliveries[subject].route].carries == "mail"
        return b"!" + payload if plain else payload
