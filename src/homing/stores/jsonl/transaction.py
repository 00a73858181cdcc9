"""The requests of one batch, on the log: all of them, or none."""

from __future__ import annotations

from collections.abc import Sequence

from homing.domain.delivery import Delivery
from homing.domain.shown import Projection
from homing.ports import Claim, Claimed, PurgeRule, Put, PutAnswer, Renewal
from homing.stores.jsonl.commit import Commit
from homing.stores.jsonl.encoding import LineEncoder, journal_line
from homing.stores.jsonl.files import AppendFile
from homing.stores.jsonl.index import LogIndex
from homing.stores.jsonl.lines import JournalRecord, QueueRecord
from homing.stores.jsonl.planning import commit_of_purge, commit_of_puts
from homing.stores.judging import Known, judge
from homing.stores.memory.claiming import are_held, as_claimed, take_due
from homing.stores.memory.purging import purged


class Transaction:
    """Each request is logged as a commit, and applied to the index before the next one is planned.

    The last one is applied after the sync. So a batch of one request that fails leaves the index
    as it was; `is_applied` says that the index has something of an unfinished transaction.
    """

    def __init__(
        self,
        index: LogIndex,
        queue: AppendFile,
        journal: AppendFile,
        projection: Projection | None,
        *,
        durable: bool,
    ) -> None:
        self._index = index
        self._queue = queue
        self._journal = journal
        self._encoder = LineEncoder(index, projection)
        self._durable = durable
        # Where the first of its lines lies in each file.
        self._starts: dict[AppendFile, int] = {}
        self._is_removable = True
        self._logged: Commit | None = None
        self._taken: Sequence[Delivery] = ()
        self.is_applied = False
        self.wakes = False

    @property
    def index(self) -> LogIndex:
        """With all that was logged."""
        if self._logged is not None:
            self._apply(self._logged)
            self.is_applied = True
        return self._index

    def put(self, puts: Sequence[Put]) -> list[list[PutAnswer]]:
        index = self.index
        judged = judge(puts, Known(index.records, index.keys, is_complete=True))
        self._log(commit_of_puts(index, judged))
        self.wakes |= judged.wakes
        return judged.answers

    def renew(self, renewal: Renewal) -> list[bool]:
        answers = are_held(self.index, renewal)
        held = zip(renewal.held, answers, strict=True)
        leases = [(one, renewal.lease_until_ms) for (one, _), is_held in held if is_held]
        self._log(Commit(beside=JournalRecord(leases=leases)))
        return answers

    def purge(self, rule: PurgeRule) -> int:
        places = purged(self.index, rule)
        self._log(commit_of_purge(rule.what, places))
        return len(places)

    def claim(self, claim: Claim) -> list[Claimed]:
        index = self.index
        taken = self._taken = take_due(index, claim)
        after = as_claimed(taken, claim)
        claimed = [Claimed(delivery, index.contents[delivery.id]) for delivery in after]
        lines = [QueueRecord(0, 0, delivery) for delivery in after]
        self._log(Commit(lines, claim=claim, taken=taken))
        return claimed

    def finish(self) -> None:
        if self._durable:
            for file in self._starts:
                if file.synced < file.end:
                    file.sync()
        if self._logged is not None:
            self._apply(self._logged)

    def back_out(self) -> bool:
        """Remove what was written. False: it failed, or a line of another program lies between."""
        for delivery in self._taken:
            self._index.due.add(delivery)
        self._taken = ()
        try:
            for file, start in self._starts.items() if self._is_removable else ():
                file.cut(start)
        except OSError:
            return False
        return self._is_removable

    def _log(self, commit: Commit) -> None:
        """Only a commit that changes something uses up a number: the next one of another process
        follows the last number in the files."""
        beside, number = commit.beside, self._index.last_commit + 1
        lines = self._encoder.lines(commit, number)
        if beside.entries:
            beside.commit, beside.lines = number, len(commit.lines)
            beside.queue_bytes = self._queue.synced
            self._append(self._journal, journal_line(beside))
            # A commit is complete with its last line in the queue: by then all of it must be safe.
            if lines and self._durable:
                self._journal.sync()
        if lines:
            commit.start = self._append(self._queue, lines)
        if lines or beside.entries:
            self._logged = commit

    def _append(self, file: AppendFile, data: bytes | bytearray) -> int:
        end = file.end
        self._starts.setdefault(file, end)
        start = file.append(data)
        self._is_removable &= start == end
        return start

    def _apply(self, commit: Commit) -> None:
        self._logged, self._taken = None, ()
        self._index.apply(commit, self._index.last_commit + 1)
