"""A process's connection to a service: what the engine calls a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from homing.domain.failure import Failure
from homing.ports import Absent, Accepted, Envelope, Found, Unknown
from homing.testing.simulator.hosts import Life
from homing.testing.simulator.sends import SendWitness
from homing.testing.simulator.service import HANG_S, Answer, Fate, Service
from homing.testing.simulator.trace import Trace


class Connection:
    """Of one process to one service."""

    def __init__(self, service: Service, life: Life, witness: SendWitness, trace: Trace) -> None:
        self.token_window_s = service.breed.token_window_s
        self.service = service
        self.life = life
        self.witness = witness
        self.trace = trace

    async def prepare(self, envelope: Envelope) -> Sending | Failure:
        [prepared] = await self._prepare_all([envelope])
        return prepared

    async def _prepare_all(self, envelopes: Sequence[Envelope]) -> list[Sending | Failure]:
        for envelope in envelopes:
            self.witness.starts(self.life, envelope.delivery_id)
        service = self.service
        if service.is_rough:
            delay_s = service.delay_s()
            if delay_s:
                await asyncio.sleep(delay_s)
            if service.has_bad_credentials:
                service.fault("bad_credentials")
                bad = Failure("auth_failed", "route_fault", code="535", detail="bad credentials")
                return [bad for _ in envelopes]
        return [Sending(self, envelope) for envelope in envelopes]

    async def close(self) -> None:
        """Nothing is open."""


class AskableConnection(Connection):
    """Of a service that can tell what it has accepted."""

    async def lookup(
        self, token: str, notification_id: str | None = None
    ) -> Found | Absent | Unknown:
        del notification_id  # the token says it all
        service = self.service
        if service.is_rough:
            delay_s = service.delay_s()
            if delay_s:
                await asyncio.sleep(delay_s)
            if service.options.has("doubt") and service.chance.random() < 0.05:
                service.fault("lookup_failed")
                raise ConnectionError("the service cannot be asked")
        found = service.look(token)
        self.trace.note(self.life.holder, "lookup", token[:8], type(found).__name__)
        return found


class GroupConnection(Connection):
    """To a service that is handed many messages at once; it may have room for some of them."""

    async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[Sending | Failure]:
        room = len(envelopes)
        if self.service.is_rough:
            room = self.service.chance.randint(1, room)
        return await self._prepare_all(envelopes[:room])


class Sending:
    """A message that one more byte makes real."""

    def __init__(self, connection: Connection, envelope: Envelope) -> None:
        self._connection = connection
        self._envelope = envelope
        self._task: asyncio.Task[None] | None = None

    def start(self, told: Callable[[Answer], None]) -> None:
        self._connection.witness.commits(self._connection.life, self._envelope)

        async def go() -> None:
            told(await self._answer())

        self._task = asyncio.get_running_loop().create_task(go())

    def withdraw(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def commit(self) -> Accepted | Failure:
        self._connection.witness.commits(self._connection.life, self._envelope)
        return await self._answer()

    async def _answer(self) -> Answer:
        connection, envelope = self._connection, self._envelope
        service, life = connection.service, connection.life
        if service.is_rough and service.options.freezes and service.chance.random() < 0.02:
            # The pause between the check and the byte on the wire: the window W3.
            await asyncio.sleep(0.001)
        fate = service.fate()
        connection.trace.note(life.holder, "commit", envelope.delivery_id, fate)
        zombie = connection.witness.is_zombie(life, envelope)
        there_s, back_s = service.delay_s(), service.delay_s()
        if there_s == 0.0 and back_s == 0.0 and fate != "hung":
            answer = service.arrive(envelope, fate, life.holder, zombie=zombie)
        else:
            answer = await self._travel(fate, there_s, back_s, zombie=zombie)
        if answer is None:
            raise AssertionError("a hung commit has no answer")
        connection.witness.answered(life, envelope, answer)
        return answer

    async def _travel(
        self, fate: Fate, there_s: float, back_s: float, *, zombie: bool
    ) -> Answer | None:
        service, envelope = self._connection.service, self._envelope
        holder = self._connection.life.holder
        waiter: asyncio.Future[Answer | None] = service.loop.create_future()
        known = service.known(envelope.token)
        known.under_way += 1

        def arrive() -> None:
            known.under_way -= 1
            answer = service.arrive(envelope, fate, holder, zombie=zombie)
            self._connection.trace.note("service", "arrived", envelope.delivery_id, fate)
            if answer is not None:
                service.loop.call_outside(back_s, lambda: _tell(waiter, answer))

        late_s = service.chance.uniform(0.0, HANG_S) if fate == "hung" else 0.0
        service.loop.call_outside(there_s + late_s, arrive)
        return await waiter

    async def abandon(self) -> None:
        """Nothing was sent."""


def _tell(waiter: asyncio.Future[Answer | None], answer: Answer) -> None:
    if not waiter.done():
        waiter.set_result(answer)


def connect(service: Service, life: Life, witness: SendWitness, trace: Trace) -> Connection:
    """As this service can be spoken to."""
    kind = Connection
    if service.breed.can_look:
        kind = AskableConnection
    elif service.breed.takes_groups:
        kind = GroupConnection
    return kind(service, life, witness, trace)
