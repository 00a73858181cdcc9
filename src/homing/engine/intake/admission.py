"""Admission: durable intake, idempotent by key; and the inline attempt that may follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Content, Delivery, Fact, New
from homing.domain.errors import IdempotencyConflict, InvalidRequest
from homing.engine.commit.group_commit import GroupCommit
from homing.engine.intake.preparing import prepare
from homing.engine.intake.request import Request, Ticket
from homing.engine.intake.submissions import Submissions
from homing.engine.route import Route
from homing.engine.work.attempt import AttemptRunner
from homing.engine.work.claimed_work import ClaimedWork, works_of
from homing.ports import Added, AsyncTransaction, Claimed, Existing, Transaction

__all__ = ["Admission", "Keeper", "Request", "Ticket"]

Wanted: TypeAlias = tuple[Route, Request]


class Keeper(Protocol):
    """A worker of this process that keeps the claim of an inline attempt."""

    def keeping(self, work: ClaimedWork) -> AbstractContextManager[None]: ...

    def attempt_in_background(
        self, work: ClaimedWork, kept: AbstractContextManager[object]
    ) -> None: ...


class Admission:
    """Accepts requests. What it returns is stored and fsynced."""

    def __init__(
        self,
        runner: AttemptRunner,
        commits: GroupCommit,
        keepers: Mapping[str, Keeper],
        tell: Callable[[str, Sequence[Delivery]], None],
    ) -> None:
        self._runner = runner
        self._process = runner.process
        self._commits = commits
        self._keepers = keepers
        self._tell = tell
        self._submissions = Submissions(commits, self._prepare_all, self._tell_accepted)

    def prepare(self, route: Route, request: Request) -> New:
        """Check and freeze a request; pure but for the clock and an id."""
        return self._prepare_all([(route, request)])[0]

    async def submit_one(self, route: Route, request: Request) -> Ticket:
        """As `submit` of one; what is submitted at the same moment shares its write."""
        self._process.intake.waiting += 1
        try:
            new, answer = await self._submissions.add((route, request))
        finally:
            self._process.intake.waiting -= 1
        return await self._ticket(route, new, answer)

    async def submit(
        self, route: Route, requests: Sequence[Request]
    ) -> list[Ticket | IdempotencyConflict]:
        """Record durably and return: each new delivery, or the stored one if its key is taken."""
        return await self.submit_each([(route, request) for request in requests])

    async def submit_each(self, requests: Sequence[Wanted]) -> list[Ticket | IdempotencyConflict]:
        """Many, on any routes, in one durable write; all are checked before any is stored.

        A conflict takes the place of its answer, and the others are stored.
        """
        new = self._prepare_all(requests)
        answers = await self._commits.add(new)
        added = [
            item for item, answer in zip(new, answers, strict=True) if isinstance(answer, Added)
        ]
        self._tell_accepted(added)
        if len(added) == len(new):
            return [Ticket(item.delivery, created=True) for item in new]
        return await self._tickets(requests, new, answers)

    def submit_within(self, route: Route, request: Request, transaction: Transaction) -> Ticket:
        """Record inside the caller's own transaction; it exists if and when the caller commits."""
        new = self.prepare(route, request)
        [answer] = transaction.add([new])
        return self._ticket_within(route, new, answer)

    async def submit_within_async(
        self, route: Route, request: Request, transaction: AsyncTransaction
    ) -> Ticket:
        """As `submit_within`, without blocking the event loop."""
        new = self.prepare(route, request)
        [answer] = await transaction.add([new])
        return self._ticket_within(route, new, answer)

    def _ticket_within(self, route: Route, new: New, answer: Added | Existing) -> Ticket:
        if isinstance(answer, Added):
            self._process.counters.accepted([new.delivery])
            return Ticket(new.delivery, created=True)
        known = _same_request(route, new, answer)
        return Ticket(replace(new.delivery, id=known), created=False)

    async def send(self, route: Route, request: Request, *, wait: bool = True) -> Ticket:
        """Store the message, then make the first attempt at once, in the caller's call.

        Without `wait` the attempt goes on in the background.
        """
        new = self.prepare(route, request)
        if not self._may_claim(route, new):
            [answer] = await self._commits.add([new])
            ticket = await self._ticket(route, new, answer)
            self._tell("accept", [ticket.delivery] if ticket.created else [])
            return ticket
        await self._process.refresh_if_stale()
        keeper = self._keepers[route.name]
        new = self._claimed(route, new)
        asked_at_s = self._process.clock.steady_s()
        claimed = Claimed(new.delivery, Content(new.payload))
        permits = self._runner.permits.of(route)
        [held] = works_of(self._process, route, permits, [claimed], asked_at_s)
        with ExitStack() as kept:
            kept.enter_context(keeper.keeping(held))
            [answer] = await self._commits.add([new])
            ticket = await self._ticket(route, new, answer)
            if not ticket.created:
                return ticket
            if isinstance(answer, Added):
                held.receipt = answer.receipt
            self._tell("accept", [ticket.delivery])
            if not wait:
                keeper.attempt_in_background(held, kept.pop_all())
                return ticket
            await self._runner.attempt(held)
            return Ticket(held.delivery, created=True)

    def _prepare_all(self, requests: Sequence[Wanted]) -> list[New]:
        return prepare(self._process, requests)

    def _tell_accepted(self, added: Sequence[New]) -> None:
        self._tell("accept", [item.delivery for item in added])

    def _may_claim(self, route: Route, new: New) -> bool:
        delivery = new.delivery
        return (
            delivery.state == "pending"
            and (delivery.due_at_ms or 0) <= self._process.clock.now_ms()
            and not self._process.pausing.is_paused(route.name)
        )

    def _claimed(self, route: Route, new: New) -> New:
        """Stored already claimed by this process: no other can start it in between."""
        claimed = transitions.accept_claimed(
            new.delivery,
            holder=self._process.holder,
            phase="inline",
            lease_until_ms=self._process.lease_until_ms(route),
        )
        return replace(new, delivery=claimed.delivery)

    async def _ticket(self, route: Route, new: New, answer: Added | Existing) -> Ticket:
        if isinstance(answer, Added):
            return Ticket(new.delivery, created=True)
        _same_request(route, new, answer)
        return (await self._repeats([(new, answer)]))[0]

    async def _tickets(
        self, requests: Sequence[Wanted], new: Sequence[New], answers: Sequence[Added | Existing]
    ) -> list[Ticket | IdempotencyConflict]:
        """In the order of the requests; what existed before is read in one go."""
        tickets: list[Ticket | IdempotencyConflict | None] = []
        repeats: list[tuple[New, Existing]] = []
        for (route, _), item, answer in zip(requests, new, answers, strict=True):
            if isinstance(answer, Added):
                tickets.append(Ticket(item.delivery, created=True))
                continue
            try:
                _same_request(route, item, answer)
            except IdempotencyConflict as conflict:
                tickets.append(conflict)
            else:
                tickets.append(None)
                repeats.append((item, answer))
        found = iter(await self._repeats(repeats))
        return [next(found) if ticket is None else ticket for ticket in tickets]

    async def _repeats(self, repeats: Sequence[tuple[New, Existing]]) -> list[Ticket]:
        """The stored deliveries for these requests; a different request leaves an audit fact."""
        ids = list(dict.fromkeys(answer.delivery_id for _, answer in repeats))
        found = await self._process.store.get_many(ids)
        stored = {delivery.id: delivery for delivery in found if delivery is not None}
        now_ms = self._process.clock.now_ms()
        audits = [
            Fact("mismatch", f"{known}/{now_ms}", now_ms, {"key": new.delivery.key})
            for new, answer in repeats
            if (known := answer.delivery_id) in stored and _differs(new, answer)
        ]
        if audits:
            await self._process.store.save([], audits)
        # Retention may have removed the record while its key still stands.
        return [
            Ticket(
                stored.get(answer.delivery_id) or replace(new.delivery, id=answer.delivery_id),
                created=False,
            )
            for new, answer in repeats
        ]


def _differs(new: New, answer: Existing) -> bool:
    return answer.key is not None and answer.key.fingerprint != new.delivery.fingerprint


def _same_request(route: Route, new: New, answer: Existing) -> str:
    """The id of the stored delivery of this request; IdempotencyConflict: of another request."""
    if answer.key is None:
        if answer.delivery_id == new.delivery.id:
            raise InvalidRequest("delivery_id", "is taken by another delivery")
        return answer.delivery_id
    if _differs(new, answer) and route.on_mismatch == "conflict":
        raise IdempotencyConflict(answer.key.source, answer.key.key, answer.delivery_id)
    return answer.delivery_id
