"""Due work of one route: how much of it to claim, and when."""

from __future__ import annotations

import asyncio

from homing.engine.commit.group_commit import GroupCommit
from homing.engine.route import Route
from homing.engine.work.attempt import AttemptRunner
from homing.engine.work.claimed_work import ClaimedWork, Owner, works_of
from homing.ports import Claim

SHORTEST_REST_S = 0.001
# Larger ones are refused at intake.
LARGEST_PAYLOAD = 28 * 1024 * 1024


class DueWork:
    """Claims for a worker, and computes how long it may wait before the next claim."""

    def __init__(self, route: Route, runner: AttemptRunner, commits: GroupCommit) -> None:
        self._route = route
        self._process = runner.process
        self._permits = runner.permits.of(route)
        self._commits = commits
        # A send is marked durably before it begins, and a handler may run twice. Only where an
        # interrupted attempt costs budget must the claim itself outlast a power cut.
        self._counts_interruptions = any(plan.interrupted_counts for plan in route.all_plans)
        self.got_all = False
        self._claimed_up_to_ms = 0
        self._claimed_at_s = float("-inf")
        self._lag_s = 0.0

    async def claim(
        self, limit: int, owner: Owner | None = None, limit_bytes: int | None = None
    ) -> list[ClaimedWork]:
        process, route, clock = self._process, self._route, self._process.clock
        await process.refresh_if_stale()
        asked_at_s = self._claimed_at_s = clock.steady_s()
        self._claimed_up_to_ms = clock.now_ms()
        claimed = await self._commits.claim(
            Claim(
                worker=process.holder,
                now_ms=self._claimed_up_to_ms,
                lease_until_ms=process.lease_until_ms(route),
                limit=limit,
                limit_bytes=limit_bytes,
                queues=route.served_queues,
                # Never our own: housekeeping finds claims of ours that no task knows.
                alive_holders=process.liveness.alive | {process.holder},
                durable=self._counts_interruptions,
            )
        )
        works = works_of(process, route, self._permits, claimed, asked_at_s, owner)
        size = sum([work.size for work in works])
        # A claim that its byte limit has cut has left due work behind.
        was_cut = limit_bytes is not None and size + LARGEST_PAYLOAD > limit_bytes
        self.got_all = not works or (len(works) < limit and not was_cut)
        # How long the first one has waited; one that was deferred seems to have waited longer.
        since_ms = claimed[0].delivery.updated_at_ms if claimed else self._claimed_up_to_ms
        self._lag_s = (self._claimed_up_to_ms - since_ms) / 1000 / process.liveness.time_scale
        return works

    async def portion(self, limit: int) -> int:
        """How many to claim now: fewer, and later, while many callers wait for intake."""
        return await self._process.intake.portion(limit, self._claimed_at_s, self._lag_s)

    async def rest_after_claim_s(self) -> float:
        if not self.got_all:
            return 0.0
        # What was claimed starts first: the question takes a turn of another thread.
        await asyncio.sleep(0)
        due_at_ms = await self._process.store.next_due_ms(self._route.served_queues)
        if due_at_ms is not None and due_at_ms <= self._claimed_up_to_ms:
            # Due at the claim and not given to us: a live process holds it.
            return self._route.poll_s / 10
        return max(self._rest_s(due_at_ms), SHORTEST_REST_S)

    def _rest_s(self, due_at_ms: int | None) -> float:
        """Until then; nothing, if it is due already."""
        if due_at_ms is None:
            return self._route.poll_s
        due_in_s = (due_at_ms - self._process.clock.now_ms()) / 1000
        return min(max(due_in_s / self._process.liveness.time_scale, 0.0), self._route.poll_s)
