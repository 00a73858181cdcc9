"""One commit: it is planned, then logged, and only then applied to the index."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from homing.domain.delivery import Delivery
from homing.ports import Claim
from homing.stores.jsonl.lines import JournalRecord, QueueRecord


class Commit(Struct):
    """Lines of the queue, and what is kept beside it. They get their number when it is logged."""

    lines: Sequence[QueueRecord] = ()
    beside: JournalRecord = field(default_factory=JournalRecord)
    # Of a claim: its lines are of what was taken out of the due queue, given as it was before.
    claim: Claim | None = None
    taken: Sequence[Delivery] = ()
    # Where its first line lies in the queue, and the length of each with its line feed.
    start: int = 0
    sizes: list[int] = field(default_factory=list)
