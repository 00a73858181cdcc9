"""The work that a worker holds, by id: its size, the renewal of its leases, its release."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from homing.engine.commit.group_commit import GroupCommit
from homing.engine.process.process import Process
from homing.engine.route import Route
from homing.engine.work.claimed_work import ClaimedWork, release


class HeldWork:
    def __init__(self, process: Process, route: Route, commits: GroupCommit) -> None:
        self._process = process
        self._commits = commits
        self._route = route
        self._by_id: dict[str, ClaimedWork] = {}
        # Set whenever there is less; whoever waits for that clears it.
        self.freed = asyncio.Event()
        self.size = 0

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self._by_id)

    def all(self) -> list[ClaimedWork]:
        """By id, so that a run can be repeated."""
        return [self._by_id[delivery_id] for delivery_id in sorted(self._by_id)]

    def add(self, works: Sequence[ClaimedWork]) -> None:
        by_id, size = self._by_id, self.size
        for work in works:
            delivery_id = work.delivery.id
            if delivery_id in by_id:
                size -= by_id[delivery_id].size
            by_id[delivery_id] = work
            size += work.size
        self.size = size

    def forget(self, works: Sequence[ClaimedWork]) -> None:
        by_id, size = self._by_id, self.size
        for work in works:
            delivery_id = work.delivery.id
            # There may be a newer claim of the same delivery under its id.
            if by_id.get(delivery_id) is work:
                del by_id[delivery_id]
                size -= work.size
        self.size = size if by_id else 0
        self.freed.set()

    def give_back(self, works: Sequence[ClaimedWork]) -> None:
        """They are pending again, but for those whose outcome is known or may be a send."""
        for work in works:
            self.forget((work,))
            work.end()
            if work.settled is not None or work.lost:
                continue
            # After its own mark the outcome is unknown: the next owner looks into it.
            if not work.delivery.committing or work.delivery.unsettled_claims > 1:
                release(work)

    async def renew_leases(self) -> None:
        """Extend the leases of all held work; a lost claim is detected at its next write."""
        process, lease_s = self._process, self._route.lease_s
        now_s = process.clock.steady_s()
        aged = [
            work
            for work in self._by_id.values()
            if work.lease_end_s - now_s < lease_s * 2 / 3 and not work.is_being_written
        ]
        if not aged:
            return
        until_ms = process.lease_until_ms(self._route)
        asked = [(work.delivery.id, work.delivery.version) for work in aged]
        renewed = await self._commits.renew(process.holder, asked, until_ms)
        for work, (_, version), is_kept in zip(aged, asked, renewed, strict=True):
            # A write since then, or one under way, carries a lease of its own.
            is_same = work.delivery.version == version and not work.is_being_written
            if is_kept and is_same:
                work.delivery = replace(work.delivery, due_at_ms=until_ms)
                work.lease_end_s = now_s + lease_s
