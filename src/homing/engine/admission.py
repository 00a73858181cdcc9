"""Admission: guards, identity, durable intake; and the inline attempt that may follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from homing.domain import identity, transitions
from homing.domain.delivery import (
    DEFAULT_PRIORITY,
    FIRST_PRIORITY,
    LAST_PRIORITY,
    Content,
    Delivery,
    Fact,
    Key,
    New,
    Recipient,
)
from homing.domain.errors import IdempotencyConflict, InvalidRequest
from homing.domain.message import Email, Message, encode_message
from homing.domain.redaction import redact
from homing.engine.add_batcher import AddBatcher
from homing.engine.attempt import AttemptRunner
from homing.engine.claimed_work import ClaimedWork, works_of
from homing.engine.parking import Parking
from homing.engine.route import Route
from homing.ports import Added, Claimed, Existing, Transaction

MAX_KEY_CHARS = 512
MAX_METADATA_CHARS = 8192


class Request(Struct, frozen=True, kw_only=True):
    """One message with all that a caller may say about it."""

    message: Message
    key: str | None = None
    source: str = ""
    priority: int = DEFAULT_PRIORITY
    not_before_ms: int | None = None
    expires_at_ms: int | None = None
    generation: int = 0
    delivery_id: str | None = None
    metadata: Mapping[str, str] = {}


class Ticket(Struct, frozen=True):
    """What a caller gets: the durable record, and whether this call made it."""

    delivery: Delivery
    created: bool

    @property
    def delivery_id(self) -> str:
        return self.delivery.id


class Taker(Protocol):
    """A worker of this process that may be handed a delivery stored already claimed."""

    holder: str

    @property
    def has_room(self) -> bool: ...

    def take(self, claimed: Claimed) -> None: ...

    def keeping(self, work: ClaimedWork) -> AbstractContextManager[None]: ...

    def attempt_in_background(
        self, work: ClaimedWork, kept: AbstractContextManager[object]
    ) -> None: ...


class Admission:
    """The way in. What it returns is stored and fsynced."""

    def __init__(
        self,
        runner: AttemptRunner,
        parking: Parking,
        takers: Mapping[str, Taker],
        tell: Callable[[str, Sequence[Delivery]], None],
    ) -> None:
        self._runner = runner
        self._process = runner.process
        self._parking = parking
        self._takers = takers
        self._tell = tell
        self._gathering = AddBatcher(
            runner.process.store, lambda new: tell("accept", [one.delivery for one in new])
        )

    def prepare(self, route: Route, request: Request) -> New:
        """Check and freeze a request; pure but for the clock and an id."""
        for guard in route.guards:
            guard(request.message)
        message: Any = request.message
        if route.normalise is not None:
            message = route.normalise(message)
        now_ms = self._process.clock.now_ms()
        _check(route, request, now_ms)
        payload = _encoded(message)
        delivery_id = request.delivery_id or self._process.new_id()
        fingerprint = identity.fingerprint(
            route.name, payload, request.not_before_ms, request.expires_at_ms
        )
        intent = route.intent(message) if route.intent is not None else None
        lane = (
            route.lane_of(message, request.generation) if route.lane_of is not None else route.name
        )
        metadata = {**message.metadata, **request.metadata}
        plan = route.plan_in(lane)
        delivery = Delivery(
            id=delivery_id,
            route=route.name,
            lane=lane,
            stage=plan.first_stage.name,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            due_at_ms=max(request.not_before_ms or now_ms, now_ms),
            expires_at_ms=request.expires_at_ms,
            source=request.source,
            key=request.key,
            fingerprint=fingerprint,
            intent=intent,
            topic=_topic(message),
            priority=request.priority,
            generation=request.generation,
            recipients=_recipients(route, message),
            metadata=metadata,
            key_term_s=plan.retention.key_s,
        )
        reason = route.suppress(message) if route.suppress is not None else None
        if reason is not None:
            delivery = transitions.suppress_at_intake(delivery, reason, now_ms=now_ms).delivery
        return New(delivery, payload=payload, keys=_keys(route, delivery))

    async def submit_one(self, route: Route, request: Request) -> Ticket:
        """As `submit` of one; what is submitted at the same moment shares its write."""
        new = self.prepare(route, request)
        self._process.intake.waiting += 1
        try:
            answer = await self._gathering.add(new)
        finally:
            self._process.intake.waiting -= 1
        return await self._ticket(route, new, answer)

    async def submit(
        self, route: Route, requests: Sequence[Request], *, taker: Taker | None = None
    ) -> list[Ticket | IdempotencyConflict]:
        """Record, durably, and return: each new one or the one that its key stands for."""
        return await self.submit_each([(route, request) for request in requests], taker=taker)

    async def submit_each(
        self, requests: Sequence[tuple[Route, Request]], *, taker: Taker | None = None
    ) -> list[Ticket | IdempotencyConflict]:
        """Many, on any routes, in one durable write; all are checked before any is stored.

        A conflict is answered in its place and keeps none of the others from being stored.
        """
        routes = [route for route, _ in requests]
        new = [self.prepare(route, request) for route, request in requests]
        if taker is not None and taker.has_room:
            new = [
                self._claimed(route, item, "worker", taker.holder)
                if self._may_claim(route, [item])
                else item
                for route, item in zip(routes, new, strict=True)
            ]
        answers = await self._process.store.add(new)
        tickets: list[Ticket | IdempotencyConflict] = []
        for route, item, answer in zip(routes, new, answers, strict=True):
            try:
                ticket = await self._ticket(route, item, answer)
            except IdempotencyConflict as conflict:
                tickets.append(conflict)
                continue
            tickets.append(ticket)
            if taker is not None and ticket.created and ticket.delivery.state == "in_flight":
                taker.take(Claimed(ticket.delivery, Content(item.payload)))
        self._tell("accept", [t.delivery for t in tickets if isinstance(t, Ticket) and t.created])
        return tickets

    def submit_within(
        self, route: Route, requests: Sequence[Request], transaction: Transaction
    ) -> list[Ticket]:
        """Record inside the caller's own transaction; it exists if and when the caller commits."""
        new = [self.prepare(route, request) for request in requests]
        tickets = []
        for item, answer in zip(new, transaction.add(new), strict=True):
            if isinstance(answer, Added):
                tickets.append(Ticket(item.delivery, created=True))
                continue
            known = self._same_request(route, item, answer)
            tickets.append(Ticket(replace(item.delivery, id=known), created=False))
        return tickets

    async def send(self, route: Route, request: Request, *, wait: bool = True) -> Ticket:
        """Record first, then attempt that very record at once, in the caller's call.

        Without `wait` the attempt goes on in the background.
        """
        new = self.prepare(route, request)
        if not self._may_claim(route, [new]):
            [answer] = await self._process.store.add([new])
            ticket = await self._ticket(route, new, answer)
            self._tell("accept", [ticket.delivery] if ticket.created else [])
            return ticket
        await self._process.refresh_if_stale()
        keeper = self._takers[route.name]
        new = self._claimed(route, new, "inline", keeper.holder)
        asked_at_s = self._process.clock.steady_s()
        claimed = Claimed(new.delivery, Content(new.payload))
        [held] = works_of(self._process, route, [claimed], asked_at_s)
        with ExitStack() as kept:
            kept.enter_context(keeper.keeping(held))
            [answer] = await self._process.store.add([new])
            ticket = await self._ticket(route, new, answer)
            if not ticket.created:
                return ticket
            self._tell("accept", [ticket.delivery])
            if not wait:
                keeper.attempt_in_background(held, kept.pop_all())
                return ticket
            await self._runner.attempt(held)
            return Ticket(held.delivery, created=True)

    def _may_claim(self, route: Route, new: Sequence[New]) -> bool:
        now_ms = self._process.clock.now_ms()
        return not self._parking.is_parked(route.name) and all(
            item.delivery.state == "pending" and (item.delivery.due_at_ms or 0) <= now_ms
            for item in new
        )

    def _claimed(self, route: Route, new: New, phase: str, holder: str) -> New:
        """Stored already claimed by this process: nobody else can start it in between."""
        delivery = replace(
            new.delivery,
            state="in_flight",
            holder=holder,
            unsettled_claims=1,
            claimed_at_ms=new.delivery.created_at_ms,
            due_at_ms=self._process.lease_until_ms(route),
            phase="inline" if phase == "inline" else "worker",
        )
        return replace(new, delivery=delivery)

    async def _ticket(self, route: Route, new: New, answer: Added | Existing) -> Ticket:
        if isinstance(answer, Added):
            return Ticket(new.delivery, created=True)
        known = self._same_request(route, new, answer)
        stored = await self._process.store.get(known)
        if answer.key is not None and stored is not None and _differs(new, answer):
            now_ms = self._process.clock.now_ms()
            audit = Fact("mismatch", f"{known}/{now_ms}", now_ms, {"key": new.delivery.key})
            await self._process.store.save([], [audit])
        # Retention may have taken the record while its key still stands.
        return Ticket(stored or replace(new.delivery, id=known), created=False)

    def _same_request(self, route: Route, new: New, answer: Existing) -> str:
        if answer.key is None:
            if answer.delivery_id == new.delivery.id:
                raise InvalidRequest("delivery_id", "is taken by another delivery")
            return answer.delivery_id
        if _differs(new, answer) and route.on_mismatch == "conflict":
            raise IdempotencyConflict(answer.key.source, answer.key.key, answer.delivery_id)
        return answer.delivery_id


def _encoded(message: Message) -> bytes:
    try:
        return encode_message(message)
    except (TypeError, OverflowError, UnicodeEncodeError) as error:
        raise InvalidRequest("data", f"cannot be stored: {redact(str(error))}") from error


def _differs(new: New, answer: Existing) -> bool:
    return answer.key is not None and answer.key.fingerprint != new.delivery.fingerprint


def _keys(route: Route, delivery: Delivery) -> tuple[Key, ...]:
    keys = []
    if delivery.key is not None:
        keys.append(Key(delivery.source, delivery.key, delivery.id, delivery.fingerprint))
    if delivery.intent is not None:
        name = identity.intent_key(route.name, delivery.intent)
        keys.append(Key(identity.INTENT_SOURCE, name, delivery.id, delivery.fingerprint))
    return tuple(keys)


def _topic(message: Any) -> str | None:
    for name in ("template_id", "type", "name"):
        topic = getattr(message, name, None)
        if topic is not None:
            return str(topic)
    return None


def _recipients(route: Route, message: Any) -> tuple[Recipient, ...]:
    if route.recipients_of is not None:
        addresses = route.recipients_of(message)
    else:
        addresses = message.envelope if isinstance(message, Email) else ()
    return tuple([Recipient(address) for address in addresses])


def _check(route: Route, request: Request, now_ms: int) -> None:
    if request.key is None and route.needs_key:
        raise InvalidRequest("key", "is required")
    if request.key is not None and not 0 < len(request.key) <= MAX_KEY_CHARS:
        raise InvalidRequest("key", f"must have 1 to {MAX_KEY_CHARS} characters")
    if request.source == identity.INTENT_SOURCE:
        raise InvalidRequest("source", "is reserved")
    if not FIRST_PRIORITY <= request.priority <= LAST_PRIORITY:
        raise InvalidRequest("priority", f"must be {FIRST_PRIORITY} to {LAST_PRIORITY}")
    if request.expires_at_ms is not None and request.expires_at_ms <= now_ms:
        raise InvalidRequest("expires_at_ms", "is in the past")
    message = request.message
    if isinstance(message, Email) and not (message.to or message.cc or message.bcc):
        raise InvalidRequest("to", "must name at least one recipient")
    metadata = request.metadata
    if metadata and sum(len(k) + len(v) for k, v in metadata.items()) > MAX_METADATA_CHARS:
        raise InvalidRequest("metadata", f"is longer than {MAX_METADATA_CHARS} characters")
