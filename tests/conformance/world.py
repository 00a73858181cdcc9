"""A small world for one route: the real engine on the memory store, a clock set by hand, a
provider that answers by a script, and crashes on request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import pytest

from homing.domain import transitions
from homing.domain.delivery import Delivery, New, Receipt
from homing.domain.failure import Failure
from homing.engine.intake.admission import Request, Ticket
from homing.engine.intake.adopting import Foreign, adopt
from homing.engine.ops.caller import CallerOperations
from homing.engine.ops.operations import Operations
from homing.engine.process.engine import Engine
from homing.engine.route import Route
from homing.ports import (
    Absent,
    Accepted,
    Claim,
    Envelope,
    Found,
    Notice,
    Notifier,
    Query,
    Ready,
    Transitioned,
    Unknown,
)
from homing.providers.stub import Accept, answer_for
from homing.stores.layout import Stored
from homing.stores.memory import MemoryStore
from homing.testing.clocks import ManualClock
from homing.testing.random_numbers import SeededRandom

Answer: TypeAlias = str | Accepted | Failure | Exception

CrashPoint: TypeAlias = Literal["before the mark", "before the send", "after the send"]

START_MS = int(datetime(2026, 2, 23, 10, tzinfo=UTC).timestamp()) * 1000


class Crash(BaseException):
    """The process ends here: nobody may catch it and go on."""


class EvenRandom(SeededRandom):
    """Every roll is a half, so that jitter can be checked to the millisecond."""

    def roll(self) -> float:
        return 0.5


def elapsed_s(clock: ManualClock) -> float:
    """Since the test began."""
    return (clock.now_ms() - START_MS) / 1000


class ScriptedProvider:
    """Answers in turn with the script's words (as the stub knows them), answers or surprises; then
    it accepts. `watch` is called in the middle of each send."""

    token_window_s = 0.0

    def __init__(self, clock: ManualClock, script: Iterable[Answer] = ()) -> None:
        self._clock = clock
        self._script: list[Accept | Accepted | Failure | Exception] = []
        self.watch: Callable[[Envelope], Awaitable[None]] | None = None
        self.refused: dict[str, Failure] = {}
        self.crash_at: CrashPoint | None = None
        self.calls: list[Envelope] = []
        self.called_at_s: list[float] = []
        self.accepted: list[Envelope] = []
        self.answer(*script)

    def answer(self, *script: Answer) -> None:
        """Further answers, in turn."""
        self._script += [answer_for(word) if isinstance(word, str) else word for word in script]

    async def prepare(self, envelope: Envelope) -> Ready:
        self._crash_if_at("before the mark")
        return _Send(self, envelope)

    async def commit(self, envelope: Envelope) -> Accepted | Failure:
        self.calls.append(envelope)
        self.called_at_s.append(elapsed_s(self._clock))
        if self.watch is not None:
            await self.watch(envelope)
        self._crash_if_at("before the send")
        if envelope.recipients[0] in self.refused:
            return self.refused[envelope.recipients[0]]
        answer = self._script.pop(0) if self._script else Accept()
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Failure):
            return answer
        self.accepted.append(envelope)
        self._crash_if_at("after the send")
        if isinstance(answer, Accepted):
            return answer
        if answer.answer_lost:
            return Failure("answer_lost", detail="cut after the message", maybe_sent=True)
        return Accepted(Receipt(f"note-{len(self.accepted)}"))

    async def close(self) -> None: ...

    def _crash_if_at(self, point: CrashPoint) -> None:
        if self.crash_at == point:
            self.crash_at = None
            raise Crash


class LookupProvider(ScriptedProvider):
    """One that can tell what it has accepted, unless it is told to know nothing."""

    def __init__(self, clock: ManualClock, script: Iterable[Answer] = ()) -> None:
        super().__init__(clock, script)
        self.looked_up: list[str] = []
        self.knows = True

    async def lookup(
        self, token: str, notification_id: str | None = None
    ) -> Found | Absent | Unknown:
        self.looked_up.append(token)
        if not self.knows:
            return Unknown()
        for number, envelope in enumerate(self.accepted, start=1):
            if envelope.token == token:
                return Found(Receipt(f"note-{number}", evidence="lookup"))
        return Absent()


class _Send:
    def __init__(self, provider: ScriptedProvider, envelope: Envelope) -> None:
        self._provider = provider
        self._envelope = envelope

    async def commit(self) -> Accepted | Failure:
        return await self._provider.commit(self._envelope)

    async def abandon(self) -> None: ...


class Listener:
    """Takes every notice it is asked to give and remembers it."""

    def __init__(self, *notices: str) -> None:
        self.notices: Collection[str] = notices
        self.most_at_once = 1
        self.heard: list[tuple[str, Delivery]] = []

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        self.heard += [(kind, notice.delivery) for notice in group]
        return [True] * len(group)

    def words(self) -> list[str]:
        return [notice for notice, _ in self.heard]


class Story:
    """Every transition that was told, with the word that the delivery showed after it."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self.told: list[tuple[str, str]] = []

    def observe(self, events: Sequence[Transitioned]) -> None:
        self.told += [(event.name, self._route.word(event.delivery)) for event in events]


class World:
    """One process with one route."""

    def __init__(
        self,
        route: Route,
        clock: ManualClock,
        *,
        rng: SeededRandom | None = None,
        notifiers: Sequence[Notifier] = (),
        store: MemoryStore | None = None,
    ) -> None:
        self.route = route
        self.clock = clock
        self.store = store or MemoryStore()
        self.story = Story(route)
        self._rng = rng or EvenRandom()
        self._notifiers = notifiers
        self._lives = 0
        self.engine = self._born()

    def _born(self) -> Engine:
        """A process: each has a name of its own in the store."""
        self._lives += 1
        return Engine(
            self.store,
            (self.route,),
            clock=self.clock,
            rng=self._rng,
            holder=f"life-{self._lives}",
            observers=[self.story],
            notifiers=self._notifiers,
        )

    @property
    def ops(self) -> Operations:
        return self.engine.ops

    async def send(self, request: Request) -> Ticket:
        """Recorded, then tried at once in this call."""
        return await self.engine.admission.send(self.route, request)

    async def submit(self, request: Request) -> Ticket:
        """Recorded only; a worker will try it."""
        [answer] = await self.engine.admission.submit(self.route, [request])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def work(self) -> int:
        """All attempts that are due now."""
        return await self.engine.run_until_idle()

    async def work_after(self, wait_s: float) -> int:
        self.clock.advance(wait_s)
        return await self.work()

    async def work_for(self, span_s: float) -> None:
        """Live through this span: work at the very moment at which something becomes due."""
        until_ms = self.clock.now_ms() + round(span_s * 1000)
        while True:
            await self.work()
            due_at_ms = await self.store.next_due_ms(self.route.served_queues)
            if due_at_ms is None or due_at_ms > until_ms:
                self._move_to(until_ms)
                return
            self._move_to(due_at_ms)

    def _move_to(self, at_ms: int) -> None:
        self.clock.advance((at_ms - self.clock.now_ms()) / 1000)

    async def work_and_crash(self, at: CrashPoint, provider: ScriptedProvider) -> None:
        """The process ends in the middle of its next send; another one is started."""
        provider.crash_at = at
        with pytest.raises(Crash):
            await self.work()
        self.engine = self._born()

    async def die_working(self, *, after_mark: bool = False) -> None:
        """A worker takes all that is due and ends at once, before or after the durable mark."""
        now_ms = self.clock.now_ms()
        lease_until_ms = now_ms + round(self.route.lease_s * 1000)
        claimed = await self.store.claim(
            Claim(
                worker="the one that died",
                now_ms=now_ms,
                lease_until_ms=lease_until_ms,
                limit=100,
                queues=self.route.served_queues,
            )
        )
        if after_mark:
            marks = [
                transitions.mark_committing(
                    one.delivery, now_ms=now_ms, lease_until_ms=lease_until_ms, frozen={}
                )
                for one in claimed
            ]
            await self.store.save(marks)

    async def get(self, delivery_id: str) -> Delivery:
        return await self.ops.show(delivery_id)

    async def stored(self, delivery_id: str) -> Stored:
        content = await self.store.content(delivery_id)
        assert content is not None
        attempts = await self.store.attempts(delivery_id)
        return Stored(await self.get(delivery_id), content, tuple(attempts))

    def adopted(self, foreign: Foreign) -> New:
        """What a record of another program becomes on this route."""
        prepared = self.engine.admission.prepare(self.route, foreign.request)
        return adopt(prepared, foreign.state)

    async def word(self, delivery_id: str) -> str:
        return self.route.word(await self.get(delivery_id))

    async def filtered(self, word: str) -> set[str]:
        """The ids that a filter by this status word finds."""
        plans = (self.route.plan, *self.route.plans.values())
        stages = tuple(dict.fromkeys(stage.name for plan in plans for stage in plan.stages))
        facets = self.route.labels.facets(word, stages)
        page = await self.store.page(Query(route=self.route.name, facets=facets), limit=10_000)
        return {delivery.id for delivery in page.items}

    async def shown(self) -> dict[str, set[str]]:
        """Every status word with the ids that show it."""
        shown: dict[str, set[str]] = {word: set() for word in self.route.labels.words()}
        ops = CallerOperations.of(self.ops, sees_personal_data=True)
        page = await ops.page(Query(route=self.route.name), limit=10_000)
        for delivery in page.items:
            shown.setdefault(self.route.word(delivery), set()).add(delivery.id)
        return shown

    async def check_filters(self) -> None:
        """A filter by a word finds exactly the deliveries that show it."""
        for word, ids in (await self.shown()).items():
            assert await self.filtered(word) == ids, word
