"""The one disk that all processes share; every write to it is shown to the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from homing.domain.delivery import Delivery, Fact
from homing.domain.writes import Write
from homing.ports import Answers, Batch
from homing.stores.memory import MemoryDisk, MemoryStore
from tests.simulation.simulator.hosts import SimProcess

Watch = Callable[[Delivery | None, Delivery | None], None]
WatchFact = Callable[[Fact], None]


class Operation:
    """What is being written, by whom. `name` is the kind of the request, `writes` are its writes:
    they carry the audit of an operator's verb."""

    __slots__ = ("asked_at_ms", "name", "process", "takes", "writes")

    def __init__(self, process: SimProcess) -> None:
        self.process = process
        self.name = ""
        self.writes: Sequence[Write] = ()
        # What this batch puts into the hands of the process.
        self.takes: set[str] = set()
        # Before any delay on the way: the wall clock may jump in between.
        self.asked_at_ms = process.clock.now_ms()


class WatchedDisk(MemoryDisk):
    """The shared disk. Every single write is shown to the oracle, before and after."""

    def __init__(self) -> None:
        super().__init__()
        self.watch: Watch = lambda _before, _after: None
        self.watch_facts: list[WatchFact] = []
        self.operation: Operation | None = None
        # In the order of their birth: no set decides anything in a run.
        self.open: dict[str, None] = {}
        self.dead: dict[str, None] = {}
        self.children: dict[str, list[str]] = {}
        self.removed: dict[str, Delivery] = {}

    def put(self, delivery: Delivery) -> None:
        before = self.deliveries.get(delivery.id)
        super().put(delivery)
        if before is None and delivery.parent_id is not None:
            self.children.setdefault(delivery.parent_id, []).append(delivery.id)
        if before is None or before.state != delivery.state:
            self._sort(delivery)
        self.watch(before, delivery)

    def put_claimed(
        self, before: Sequence[Delivery], after: Sequence[Delivery], holder: str, until_ms: int
    ) -> None:
        super().put_claimed(before, after, holder, until_ms)
        for old, new in zip(before, after, strict=True):
            if old.state != new.state:
                self._sort(new)
            self.watch(old, new)

    def note(self, facts: Iterable[Fact]) -> None:
        facts = tuple(facts)
        super().note(facts)
        for fact in facts:
            for watch in self.watch_facts:
                watch(fact)

    def remove(self, delivery_id: str) -> None:
        before = self.deliveries.get(delivery_id)
        super().remove(delivery_id)
        if before is not None:
            self.removed[delivery_id] = before
            self.open.pop(delivery_id, None)
            self.dead.pop(delivery_id, None)
            self.watch(before, None)

    def begin(
        self, name: str, writes: Sequence[Write] = (), *, asked_at_ms: int | None = None
    ) -> None:
        """The next request of a batch, perhaps asked for at another time than the batch."""
        if self.operation is not None:
            self.operation.name = name
            self.operation.writes = writes
            if asked_at_ms is not None:
                self.operation.asked_at_ms = asked_at_ms

    def _sort(self, delivery: Delivery) -> None:
        if delivery.is_terminal:
            self.open.pop(delivery.id, None)
        else:
            self.open[delivery.id] = None
        if delivery.state == "failed":
            self.dead[delivery.id] = None
        else:
            self.dead.pop(delivery.id, None)


class WatchedStore(MemoryStore):
    """Executes a batch request by request, so that the oracle sees what each of them writes."""

    def __init__(self, disk: WatchedDisk) -> None:
        super().__init__(disk)
        self._disk = disk

    async def commit(self, batch: Batch) -> Answers:
        parts: list[Answers] = []
        for put in batch.puts:
            self._disk.begin(put.kind, put.writes)
            parts.append(await super().commit(Batch(puts=(put,))))
        for renewal in batch.renewals:
            self._disk.begin("renew")
            parts.append(await super().commit(Batch(renewals=(renewal,))))
        for rule in batch.purges:
            self._disk.begin("purge")
            parts.append(await super().commit(Batch(purges=(rule,))))
        for claim in batch.claims:
            self._disk.begin("claim", asked_at_ms=claim.now_ms)
            parts.append(await super().commit(Batch(claims=(claim,))))
        return Answers(
            [answer for part in parts for answer in part.puts],
            [answer for part in parts for answer in part.renewals],
            [answer for part in parts for answer in part.purges],
            [answer for part in parts for answer in part.claims],
        )
