"""A process's connection to a service: what the engine calls a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from homing.domain.failure import Failure
from homing.ports import Absent, Accepted, Envelope, Found, Unknown
from tests.simulation.simulator.hosts import SimProcess
from tests.simulation.simulator.options import Family
from tests.simulation.simulator.send_checks import SendChecks
from tests.simulation.simulator.service import HANG_S, Answer, Reaction, Service
from tests.simulation.simulator.trace import Trace

# Where sends come into doubt, those who look them up may be refused, too.
DOUBTFUL: tuple[Family, ...] = ("doubt", "provider", "crash", "freeze")


class ProviderBroken(Exception):
    """Raised by a provider where it should have answered."""


class Connection:
    """Of one process to one service."""

    def __init__(
        self, service: Service, process: SimProcess, checks: SendChecks, trace: Trace
    ) -> None:
        self.token_window_s = service.route_kind.token_window_s
        self.service = service
        self.process = process
        self.checks = checks
        self.trace = trace

    async def prepare(self, envelope: Envelope) -> Sending | Failure:
        [prepared] = await self._prepare_all([envelope])
        return prepared

    async def _prepare_all(self, envelopes: Sequence[Envelope]) -> list[Sending | Failure]:
        for envelope in envelopes:
            self.checks.starts(self.process, envelope.delivery_id)
        service = self.service
        if service.faults_on:
            delay_s = service.delay_s()
            if delay_s:
                await asyncio.sleep(delay_s)
            if service.has_bad_credentials:
                service.fault("bad_credentials")
                bad = Failure("auth_failed", "route_fault", code="535", detail="bad credentials")
                return [bad for _ in envelopes]
        if service.breaks("prepare_raised"):
            raise ProviderBroken("prepare failed")
        return [self._prepared(envelope) for envelope in envelopes]

    def _prepared(self, envelope: Envelope) -> Sending:
        if self.service.breaks("prepare_garbage"):
            return cast(Sending, None)
        return Sending(self, envelope)

    async def close(self) -> None:
        """Nothing is open."""


class AskableConnection(Connection):
    """Of a service that can tell what it has accepted."""

    async def lookup(
        self, token: str, notification_id: str | None = None
    ) -> Found | Absent | Unknown:
        del notification_id  # the token says it all
        service = self.service
        if service.faults_on:
            delay_s = service.delay_s()
            if delay_s:
                await asyncio.sleep(delay_s)
            if service.options.has(*DOUBTFUL) and service.rng.random() < 0.3:
                service.fault("lookup_failed")
                raise ConnectionError("the service cannot be asked")
        found = service.look(token)
        self.trace.note(self.process.holder, "lookup", token[:8], type(found).__name__)
        return found


class GroupConnection(Connection):
    """To a service that is handed many messages at once; it may have room for some of them."""

    async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[Sending | Failure]:
        room = len(envelopes)
        if self.service.faults_on:
            room = self.service.rng.randint(1, room)
        return await self._prepare_all(envelopes[:room])


class Sending:
    """A message that one more byte makes real."""

    def __init__(self, connection: Connection, envelope: Envelope) -> None:
        self._connection = connection
        self._envelope = envelope
        self._task: asyncio.Task[None] | None = None

    def start(self, told: Callable[[Answer], None]) -> None:
        self._begin()

        async def go() -> None:
            told(await self._answer())

        self._task = asyncio.get_running_loop().create_task(go())

    def withdraw(self) -> bool:
        if self._task is not None:
            self._task.cancel()
        return True

    async def commit(self) -> Accepted | Failure:
        self._begin()
        return await self._answer()

    def _begin(self) -> None:
        """The byte that may send goes out; what raises here may have sent it or not."""
        connection, envelope = self._connection, self._envelope
        service, process = connection.service, connection.process
        connection.checks.commits(process, envelope)
        if service.breaks("start_raised"):
            if service.rng.random() < 0.5:
                service.arrive(envelope, "accept", process.holder, zombie=False)
            raise ProviderBroken("the provider failed while it sent")

    async def _answer(self) -> Answer:
        connection, envelope = self._connection, self._envelope
        service, process = connection.service, connection.process
        if service.faults_on and service.options.freezes and service.rng.random() < 0.02:
            # The pause between the check and the byte on the wire: the window W3.
            await asyncio.sleep(0.001)
        reaction = service.reaction()
        connection.trace.note(process.holder, "commit", envelope.delivery_id, reaction)
        zombie = connection.checks.is_zombie(process, envelope)
        there_s, back_s = service.delay_s(), service.delay_s()
        if there_s == 0.0 and back_s == 0.0 and reaction != "hung":
            answer = service.arrive(envelope, reaction, process.holder, zombie=zombie)
        else:
            answer = await self._travel(reaction, there_s, back_s, zombie=zombie)
        if answer is None:
            raise AssertionError("a hung commit has no answer")
        if service.breaks("answer_none"):
            return cast(Answer, None)
        if service.breaks("answer_garbage"):
            return cast(Answer, "250 queued")
        connection.checks.answered(process, envelope, answer)
        return answer

    async def _travel(
        self, reaction: Reaction, there_s: float, back_s: float, *, zombie: bool
    ) -> Answer | None:
        service, envelope = self._connection.service, self._envelope
        holder = self._connection.process.holder
        waiter: asyncio.Future[Answer | None] = service.loop.create_future()
        known = service.known(envelope.token)
        known.under_way += 1

        def arrive() -> None:
            known.under_way -= 1
            answer = service.arrive(envelope, reaction, holder, zombie=zombie)
            self._connection.trace.note("service", "arrived", envelope.delivery_id, reaction)
            if answer is not None:
                service.loop.call_outside(back_s, lambda: _tell(waiter, answer))

        late_s = service.rng.uniform(0.0, HANG_S) if reaction == "hung" else 0.0
        service.loop.call_outside(there_s + late_s, arrive)
        return await waiter

    async def abandon(self) -> None:
        """Nothing was sent."""


def _tell(waiter: asyncio.Future[Answer | None], answer: Answer) -> None:
    if not waiter.done():
        waiter.set_result(answer)


def connect(service: Service, process: SimProcess, checks: SendChecks, trace: Trace) -> Connection:
    """As this service can be spoken to."""
    kind = Connection
    if service.route_kind.can_look:
        kind = AskableConnection
    elif service.route_kind.takes_groups:
        kind = GroupConnection
    return kind(service, process, checks, trace)
