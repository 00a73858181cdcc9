"""Sends that go together: one write marks many of them, and none needs a task of its own.

What a worker has claimed is packed and sent in groups. The answers come one by one; those of one
moment are settled together, so a slow one holds nobody up.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from homing.domain import transitions
from homing.domain.failure import Failure
from homing.domain.policy import Plan
from homing.engine.attempt import AttemptRunner
from homing.engine.claimed_work import ClaimedWork
from homing.engine.group import Group
from homing.engine.permits import Permits
from homing.engine.save_batcher import Kept, PendingSave
from homing.engine.steps import Packed, SendStep, outcome_of
from homing.ports import Accepted, GroupProvider

log = logging.getLogger("homing.engine")

MOST_TOGETHER = 64
# An answer waits so long for others, to be settled by one write.
COMPANY_WITHIN_S = 0.01


class Convoy:
    """The sends of one stage of one route.

    `room` is the route's own, and taken first: who waits for a server holds no permit of the
    process. `began` and `ended` are told of each send. What is not plain (in doubt, suspect, out
    of time, not to be rendered) is `turned_away`: it needs more than a convoy can do.
    """

    def __init__(  # noqa: PLR0913 - what a convoy rides on, and who is told of it
        self,
        stage: str,
        step: SendStep,
        provider: GroupProvider,
        attempts: AttemptRunner,
        room: Permits,
        *,
        is_parked: Callable[[], bool],
        began: Callable[[ClaimedWork], None],
        ended: Callable[[ClaimedWork], None],
        turned_away: Callable[[ClaimedWork], None],
    ) -> None:
        self._stage = stage
        self._step = step
        self._provider = provider
        self._attempts = attempts
        self._room = room
        self._is_parked = is_parked
        self._ended = ended
        self._turned_away = turned_away
        self._began = began
        self._waiting: deque[ClaimedWork] = deque()
        self._arrived = asyncio.Event()
        self._groups: list[Group] = []
        self._unanswered = 0
        self._made_room = 0
        self._answers: list[tuple[ClaimedWork, Accepted | Failure]] = []
        self._timer: asyncio.TimerHandle | None = None

    def takes(self, held: ClaimedWork) -> bool:
        """Whether it is a fresh claim without a past that must be looked into first."""
        delivery = held.delivery
        return (
            delivery.stage == self._stage
            and delivery.phase == "worker"
            and delivery.unsettled_claims == 1
            and not delivery.crashes
            and not delivery.maybe_sent
            and not held.is_probe
        )

    def put(self, held: ClaimedWork) -> None:
        self._waiting.append(held)
        self._arrived.set()

    def take_back(self) -> list[ClaimedWork]:
        """What has not begun."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

    async def run(self) -> None:
        """Send what arrives, until cancelled."""
        while True:
            try:
                await self._next()
            except Exception:
                log.exception("a group of sends went wrong, and the next one goes on")

    def stop(self) -> None:
        """What is answered is settled; the rest is looked into by its next owner."""
        self._settle_answers()
        for group in self._groups:
            group.withdraw()

    async def _next(self) -> None:
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        room = await self._room.take(min(len(self._waiting), MOST_TOGETHER))
        gate = self._attempts.gate
        if not gate.is_open:
            self._room.give_back(room)
            await gate.opened()
            return
        packed, timeout_s = self._load(room)
        self._room.give_back(room - len(packed))
        if packed:
            group = Group(packed, timeout_s, self._attempts, self)
            self._groups = [group, *(other for other in self._groups if not other.is_over)]
            await group.send(self._provider)

    def _load(self, most: int) -> tuple[dict[ClaimedWork, Packed], float]:
        """The next ones under one plan; each is inside the gate."""
        group: dict[ClaimedWork, Packed] = {}
        plan: Plan | None = None
        while self._waiting and len(group) < most:
            held = self._waiting.popleft()
            its_plan = held.route.plan_of(held.delivery)
            if plan is not None and its_plan is not plan:
                self._waiting.appendleft(held)
                break
            packed = self._pack(held, its_plan)
            if packed is None:
                self._turned_away(held)
                continue
            plan = its_plan
            self._attempts.gate.enter()
            group[held] = packed
        self._unanswered += len(group)
        return group, 0.0 if plan is None else plan.stage(self._stage).timeout_s

    def _pack(self, held: ClaimedWork, plan: Plan) -> Packed | None:
        delivery = held.delivery
        expires_at_ms = delivery.expires_at_ms
        if expires_at_ms is not None and self._attempts.process.clock.now_ms() >= expires_at_ms:
            return None
        if self._is_parked() or transitions.overspent(delivery, plan) is not None:
            return None
        try:
            packed = self._step.pack(delivery, held.content)
        except Exception:
            return None  # tried again where a fault gets its verdict
        return None if isinstance(packed, Failure) else packed

    def finds_no_room(self, group: Sequence[ClaimedWork]) -> None:
        for held in reversed(group):
            self._drop(held)
            self._waiting.appendleft(held)

    def is_dropped(self, held: ClaimedWork) -> None:
        self._drop(held)
        self._ended(held)

    def marks_follow(self) -> None:
        self._settle_answers()

    def has_begun(self, held: ClaimedWork) -> None:
        self._began(held)

    def is_answered(self, held: ClaimedWork, answer: Accepted | Failure) -> None:
        self._unanswered -= 1
        self._answers.append((held, answer))
        if not (self._unanswered or self._waiting):
            self._settle_answers()
            return
        if not self._unanswered:
            self._make_room()
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(COMPANY_WITHIN_S, self._settle_answers)

    def _make_room(self) -> None:
        """The next group may be made ready; its marks share a write with these outcomes."""
        self._room.give_back(len(self._answers) - self._made_room)
        self._made_room = len(self._answers)

    def _settle_answers(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._make_room()
        answers, self._answers, self._made_room = self._answers, [], 0
        if answers:
            self._attempts.process.saves.put_all([self._settlement(*answer) for answer in answers])
        for held, _ in answers:
            held.give_permit_back()

    def _settlement(self, held: ClaimedWork, answer: Accepted | Failure) -> PendingSave:
        name, change = self._attempts.conclude(held, outcome_of(answer))
        settlement = self._attempts.settlement(held, name, change)
        settlement.done = partial(self._settled, held)
        return settlement

    def _settled(self, held: ClaimedWork, _kept: Kept) -> None:
        self._attempts.gate.leave()
        self._ended(held)

    def _drop(self, held: ClaimedWork) -> None:
        self._unanswered -= 1
        self._room.give_back()
        held.give_permit_back()
        self._attempts.gate.leave()
