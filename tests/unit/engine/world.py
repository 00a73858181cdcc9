"""One process of the engine over a memory store: time, chance and faults in the test's hand."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from homing.domain import transitions
from homing.domain.delivery import Change, Content, Delivery
from homing.domain.message import Event
from homing.domain.policy import Ladder, Plan, Retry, Stage
from homing.engine.intake.admission import Request, Ticket
from homing.engine.process.engine import Engine
from homing.engine.route import Route
from homing.ports import (
    Alert,
    Answers,
    Batch,
    Done,
    Notice,
    Outcome,
    Transitioned,
    Work,
)
from homing.stores.memory import MemoryDisk, MemoryStore
from homing.testing.clocks import ManualClock
from homing.testing.random_numbers import SeededRandom

T = TypeVar("T")

MINUTE_MS = 60_000


class Script:
    """A step that answers in turn, and is done once its answers are used up."""

    def __init__(self, *answers: Outcome | Exception | None) -> None:
        self.answers = deque(answers)
        self.seen: list[Delivery] = []
        self.contents: list[Content] = []

    async def __call__(self, work: Work) -> Outcome:
        self.seen.append(work.delivery)
        self.contents.append(work.content)
        answer = self.answers.popleft() if self.answers else Done()
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value] # a step of a user may well return None


class Patient:
    """A step that waits until it is let go, and counts who came."""

    def __init__(self) -> None:
        self.seen: list[Delivery] = []
        self.came = asyncio.Event()
        self.to_state = asyncio.Event()

    async def __call__(self, work: Work) -> Outcome:
        self.seen.append(work.delivery)
        self.came.set()
        await self.to_state.wait()
        return Done()


class FaultyStore(MemoryStore):
    """Fails as told: before the write, or after it, when only the answer is lost."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        super().__init__(disk)
        self.before: defaultdict[str, deque[Exception]] = defaultdict(deque)
        self.after: defaultdict[str, deque[Exception]] = defaultdict(deque)
        self.calls: list[str] = []

    async def _do(self, kinds: Sequence[str], act: Callable[[], Awaitable[T]]) -> T:
        names = dict.fromkeys(kinds)
        self.calls += names
        await asyncio.sleep(0)  # as a real store, it gives way
        for name in names:
            if self.before[name]:
                raise self.before[name].popleft()
        answer = await act()
        for name in names:
            if self.after[name]:
                raise self.after[name].popleft()
        return answer

    async def commit(self, batch: Batch) -> Answers:
        kinds = [put.kind for put in batch.puts] + ["claim" for _ in batch.claims]
        return await self._do(kinds, lambda: MemoryStore.commit(self, batch))

    async def get(self, delivery_id: str) -> Delivery | None:
        return await self._do(["get"], lambda: MemoryStore.get(self, delivery_id))


def saved(batch: Batch) -> list[Delivery]:
    """The deliveries that this batch saves."""
    writes = [write for put in batch.puts for write in put.writes]
    return [write.delivery for write in writes if write.over is not None]


class PaperJournal:
    """The emergency journal, on paper."""

    damage: str | None = None

    def __init__(self) -> None:
        self.kept: list[Change] = []

    async def append(self, changes: Sequence[Change]) -> None:
        self.kept.extend(changes)

    async def entries(self) -> list[Change]:
        return list(self.kept)

    async def clear(self) -> None:
        self.kept.clear()


class Bell:
    """Takes notices and alerts, in groups; `deaf` ones are not taken."""

    notices: Collection[str] = ("alert", "log")
    most_at_once = 100

    def __init__(self) -> None:
        self.deaf = False
        self.notified: list[tuple[str, str]] = []
        self.alerts: list[Alert] = []

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        self.notified += [(kind, notice.delivery.id) for notice in group]
        return [not self.deaf] * len(group)

    async def sound(self, alert: Alert) -> bool:
        self.alerts.append(alert)
        return not self.deaf


class World:
    """`engine` is the real one; `told` is what its observers were told."""

    def __init__(
        self,
        *routes: Route,
        store: MemoryStore | None = None,
        clock: ManualClock | None = None,
        name: str = "w1",
        **ports: Any,
    ) -> None:
        routes = routes or (route(),)
        self.clock = clock or ManualClock()
        self.store = store or MemoryStore()
        self.told: list[Transitioned] = []
        self._news = asyncio.Event()
        self.engine = Engine(
            self.store,
            routes,
            clock=self.clock,
            rng=SeededRandom(name),
            holder=name,
            observers=(self,),
            **ports,
        )
        self.route = routes[0]

    def observe(self, events: Sequence[Transitioned]) -> None:
        self.told.extend(events)
        self._news.set()

    async def until_told(self, name: str, times: int = 1) -> None:
        """Wait until observers have heard of this transition so often."""
        async with asyncio.timeout(30):
            while self.names.count(name) < times:
                self._news.clear()
                await self._news.wait()

    @property
    def names(self) -> list[str]:
        """Of the transitions that were told, after the acceptance."""
        return [event.name for event in self.told if event.name != "accept"]

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    async def submit(self, key: str | None = None, **words: Any) -> Delivery:
        """Accept an event on the first route."""
        words = {"message": Event("paid", {"order": 1}), "key": key} | words
        [ticket] = await self.engine.admission.submit(self.route, [Request(**words)])
        assert isinstance(ticket, Ticket)
        return ticket.delivery

    async def get(self, delivery_id: str) -> Delivery:
        delivery = await self.store.get(delivery_id)
        assert delivery is not None
        return delivery

    async def run(self, *, after_s: float = 0.0) -> int:
        self.clock.advance(after_s)
        return await self.engine.run_until_idle()

    async def crash_of_another(self, delivery_id: str, *, committing: bool = False) -> None:
        """Another process claims it, perhaps writes the mark, and is never heard of again."""
        change = transitions.claim(
            await self.get(delivery_id),
            holder="gone",
            now_ms=self.now_ms,
            lease_until_ms=self.now_ms,
        )
        self.store.disk.put(change.delivery)
        if committing:
            marked = transitions.mark_committing(
                change.delivery, now_ms=self.now_ms, lease_until_ms=self.now_ms, frozen={}
            )
            assert await self.store.save([marked]) == [True]


async def quiet() -> None:
    """Let every task go as far as it can; no time passes."""
    for _ in range(100):
        await asyncio.sleep(0)


def stage(name: str = "handle", *, attempts: int = 3, **fields: Any) -> Stage:
    return Stage(name=name, retry=Retry(Ladder((60.0,)), max_attempts=attempts), **fields)


def route(*stages: Stage, step: Any = None, name: str = "event", **fields: Any) -> Route:
    """A route of these stages, all served by the one step; `rules` are those of the plan."""
    rules = fields.pop("rules", {})
    stages = stages or (stage(),)
    step = step or Script()
    return Route(
        name=name,
        plan=Plan(stages=stages, **rules),
        steps={one.name: step for one in stages},
        **fields,
    )
