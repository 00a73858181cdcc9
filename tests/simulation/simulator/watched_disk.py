"""The one disk that all processes share; every write to it is shown to the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from homing.domain.delivery import Change, Delivery, Fact
from homing.stores.memory import MemoryDisk
from tests.simulation.simulator.hosts import SimProcess

Watch = Callable[[Delivery | None, Delivery | None], None]
WatchFact = Callable[[Fact], None]


class Operation:
    """What is being written, by whom; `changes` carry the audit of an operator's verb."""

    __slots__ = ("asked_at_ms", "changes", "name", "process", "takes")

    def __init__(self, process: SimProcess, name: str, changes: Sequence[Change] = ()) -> None:
        self.process = process
        self.name = name
        self.changes = changes
        # What this write puts into the hands of the process.
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

    def _sort(self, delivery: Delivery) -> None:
        if delivery.is_terminal:
            self.open.pop(delivery.id, None)
        else:
            self.open[delivery.id] = None
        if delivery.state == "failed":
            self.dead[delivery.id] = None
        else:
            self.dead.pop(delivery.id, None)
