"""`Homing`: the one composition root. URLs become stores and providers; routes become an engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from homing.domain.errors import (
    IdempotencyConflict,
    InvalidRequest,
    NotAllowed,
    NotFound,
    StoreCorrupt,
    StoreError,
)
from homing.domain.message import Email, Event, Job, Message
from homing.domain.policy import OnUnknown, Retention, Retry
from homing.engine.access.tokens import Tokens
from homing.engine.access.users import Users
from homing.engine.intake.admission import Admission, Request, Ticket
from homing.engine.intake.request import SubmitOptions
from homing.engine.intake.request_checks import plain_message, plain_text, whole_generation
from homing.engine.ops.bulk import BulkActions
from homing.engine.ops.operations import Operations
from homing.engine.ops.search import SearchResult
from homing.engine.process.engine import SHUTDOWN_GRACE_S, Engine
from homing.engine.process.route_owners import store_owner, stored_owners
from homing.engine.process.route_table import RouteTable
from homing.engine.process.store_health import DAMAGED, REFUSES
from homing.engine.route import Route, check_retention
from homing.engine.work.function_step import TerminalErrors
from homing.engine.work.handler_names import store_names
from homing.engine.work.handler_step import Validate
from homing.engine.work.handlers import EVENT_ROUTE, Handlers, job_route
from homing.ports import (
    Alarm,
    AsyncTransactionalStore,
    Clock,
    Journal,
    Notifier,
    Observer,
    Provider,
    Random,
    Store,
    TakesLines,
    TakesRows,
    TransactionalStore,
    WritesLayouts,
)
from homing.runtime import forks
from homing.runtime.clock import ScaledClock, SystemClock, SystemRandom, agree_on_time
from homing.runtime.mail_route import MAIL_ROUTE, mail_route
from homing.runtime.sync import SyncHoming
from homing.runtime.urls import journal_for, provider_of, scheme_of_store, store_of
from homing.stores.foreign_lines import take_lines
from homing.stores.foreign_rows import RowAdopter
from homing.stores.layout import RecordLayout
from homing.stores.projecting import LayoutProjection

F = TypeVar("F", bound=Callable[..., Any])


class Homing:
    """Accepts messages and delivers them; what cannot be delivered becomes a dead letter.

    Inside `async with` the worker runs in this process; with `worker=False` it only accepts,
    and leaves the work to another process on the same store.
    """

    def __init__(  # noqa: PLR0913 - every port may be replaced; all have a default
        self,
        store: str | Path | Store = "sqlite:///homing.db",
        *,
        provider: str | Provider | None = None,
        sender: str | None = None,
        allowed_senders: Sequence[str] = (),
        templates: str | Path | None = None,
        dkim: Mapping[str, tuple[str, str]] | None = None,
        on_unknown: OnUnknown = "retry",
        retry: Retry | None = None,
        timeout_s: float | None = None,
        retention: Retention | None = None,
        routes: Sequence[Route] = (),
        known: Sequence[Route] = (),
        layouts: Mapping[str, RecordLayout] | None = None,
        worker_commands: Mapping[str, str] | None = None,
        route_owner: str | None = None,
        worker: bool = True,
        generation: int = 0,
        clock: Clock | None = None,
        rng: Random | None = None,
        journal: Journal | str | Path | None = None,
        observers: Sequence[Observer] = (),
        notifiers: Sequence[Notifier] = (),
        alarm: Alarm | None = None,
        time_scale: float = 1.0,
        shutdown_grace_s: float = SHUTDOWN_GRACE_S,
    ) -> None:
        """`store` is a URL, the `Path` of a SQLite file, or a store; `provider` a URL or a provider
        of mail. `sender` is the From of all mail, unless a message names one of `allowed_senders`;
        `templates` is the folder of the catalog; `dkim` has, by domain, the selector and the path
        of the key with which mail is signed. Where it is unknown whether an attempt was accepted,
        `on_unknown` says whether the mail is sent again (`retry`, flagged as a possible duplicate)
        or waits for a person (`hold`). `retry` says when and how often a mail is tried, `timeout_s`
        how long one attempt may take; handlers and jobs have their own. `retention` says how long
        records of every route are kept after their end; by default as each route says.

        `known` routes belong to other programs on the same store: their deliveries are read
        and repaired here, not accepted and not tried. `worker_commands` says, by route, which
        command serves it; others belong to an application. `route_owner` names the owner of
        `routes` for programs that do not have them. `layouts`, by queue or route, are the records
        that a store may write beside its own. `journal` is the file of the emergency journal."""
        self.shutdown_grace_s = shutdown_grace_s
        self.time_scale = time_scale
        self._clock = clock or (SystemClock() if time_scale == 1.0 else ScaledClock(time_scale))
        self._rng = rng or SystemRandom()
        self.store = store_of(store)
        self.store_scheme = scheme_of_store(store)
        self.provider = None if provider is None else provider_of(provider)
        self._mail_route: Callable[[Provider], Route] | None = None
        if self.provider is not None and all(route.name != MAIL_ROUTE for route in routes):
            self._mail_route = partial(
                mail_route,
                sender=sender,
                allowed_senders=allowed_senders,
                catalog=templates,
                dkim=dkim,
                on_unknown=on_unknown,
                retry=retry,
                timeout_s=timeout_s,
            )
            routes = (*routes, self._mail_route(self.provider))
        self._handlers = Handlers()
        self._routes = RouteTable(routes, known, self._handlers)
        if retention is not None:
            check_retention(retention)
            self._routes.adapt(lambda route: route.keeping(retention))
        # Of the engine's routes, those that messages of a class take when no other is asked for.
        self._usual_routes: dict[type, Route] = {}
        self._layouts: dict[str, RecordLayout] = {}
        self._use_layouts(layouts or {})
        self._worker_commands = worker_commands or {}
        self._route_owner = route_owner
        self._worker = worker
        self._generation = whole_generation("generation", generation)
        if journal is None or isinstance(journal, str | Path):
            journal = journal_for(self.store, journal)
        self._journal = journal
        self._observers = list(observers)
        self._notifiers = list(notifiers)
        self._alarm = alarm
        self._making = threading.Lock()
        self._engine: Engine | None = None
        self._bulk: BulkActions | None = None
        self.running_in: asyncio.AbstractEventLoop | None = None
        """The event loop in which it is started."""
        self._was_forked = False
        self._sync = SyncHoming(self)
        forks.forget_in_child(self)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def providers(self) -> list[Provider]:
        """Of the routes that are worked on here, each once."""
        return self._routes.providers

    def use_without_worker(self) -> Self:
        """Before the start: only accept, read and repair here, whatever `worker` says."""
        self._not_started("use_without_worker")
        self._worker = False
        return self

    @contextmanager
    def _replaced(
        self, *, store: Store, provider: Provider, clock: Clock, rng: Random
    ) -> Iterator[None]:
        """For tests, before the start: other parts until the end of the `with`, and no worker.

        Handlers, jobs, observers and routes that were given with a provider of their own stay.
        """
        self._not_started("Outbox")
        before = self.__dict__.copy()
        self.store, self._journal = store, None
        self._clock, self._rng = clock, rng
        self._worker = False
        if self._mail_route is not None:
            self.provider = provider
            self._routes = self._routes.replacing(self._mail_route(provider))
        try:
            yield
        finally:
            self.__dict__.update(before)
            self._drop_engine()

    def works_on(self, route: str) -> bool:
        """Whether deliveries of this route are accepted here, not only read and repaired."""
        return self._routes.works_on(route)

    async def start(self) -> None:
        """Open the store, recover unfinished work from the previous run, and start working.

        If that fails, everything is closed again.
        """
        if self.running_in is not None:
            raise NotAllowed(
                "Homing is started already, by `start()`, `async with homing` or homing.sync;"
                " it keeps running, and this second start is refused"
            )
        self.running_in = asyncio.get_running_loop()
        try:
            await self._start()
        except BaseException:
            with contextlib.suppress(Exception):  # the first error says more
                await self.stop(0)
            raise

    async def _start(self) -> None:
        try:
            await self.store.open()
        except StoreError as error:
            kind = DAMAGED if isinstance(error, StoreCorrupt) else REFUSES
            await self._made_engine().alerts.sound_now(kind, "store", str(error))
            raise
        if isinstance(self._clock, ScaledClock):
            await agree_on_time(self._clock, self.store, self._rng)
        engine = self._made_engine()
        owners = await stored_owners(self.store)
        if self._route_owner is not None:
            now_ms = self._clock.now_ms()
            await store_owner(self.store, self._route_owner, self._routes.own, owners, now_ms)
        engine.ops.program.route_owners.update(owners)
        await store_names(self.store, self._handlers.alone(), self._clock.now_ms())
        self._bulk = BulkActions(
            self.store, engine.ops, self._clock, self._rng, time_scale=self.time_scale
        )
        if self._worker:
            await engine.start()
        else:
            await engine.watch()

    def _use_layouts(self, layouts: Mapping[str, RecordLayout]) -> None:
        self._layouts |= layouts
        if layouts and isinstance(self.store, WritesLayouts):
            self.store.show(LayoutProjection(self._layouts, self._routes.retention_of))

    def _made_engine(self) -> Engine:
        """The engine, started or not: making it touches neither the store nor a provider."""
        with self._making:
            if self._engine is None:
                self._engine = self._new_engine()
            return self._engine

    def _new_engine(self) -> Engine:
        host, pid = socket.gethostname(), os.getpid()
        engine = Engine(
            self.store,
            self._routes.to_work_on(self._generation, self.store),
            clock=self._clock,
            rng=self._rng,
            holder=f"{host}-{pid}-{self._rng.entropy(4).hex()}",
            journal=self._journal,
            observers=self._observers,
            notifiers=self._notifiers,
            alarm=self._alarm,
            about={"host": host, "pid": pid},
            time_scale=self.time_scale,
            known=self._routes.known,
            take_lines=self._take_lines if self._takes_lines else None,
        )
        engine.ops.program.worker_commands.update(self._worker_commands)
        engine.ops.program.as_stored = _address_as_stored
        return engine

    @property
    def _takes_lines(self) -> bool:
        has_tables = any(layout.table is not None for layout in self._layouts.values())
        return isinstance(self.store, TakesLines) or (
            has_tables and isinstance(self.store, TakesRows)
        )

    async def _take_lines(self) -> int:
        """Adopt what other programs have written into the file or the tables of the store, by the
        layouts of the routes that are worked on here; returns how many became deliveries."""
        engine, number = self.engine, 0
        given = (engine.admission, self._clock, engine.alerts.sound)
        for worker in engine.workers.values():
            route = worker.route
            layout = self._layouts.get(route.name)
            if layout is None or layout.read is None:
                continue
            if isinstance(self.store, TakesRows):
                number += await RowAdopter(self, route, layout, *given).take_rows()
            else:
                number += await take_lines(self.store, route, layout, *given)
        return number

    async def stop(self, grace_s: float | None = None) -> None:
        """Finish or release claimed work, then close. Nothing happens if it is not started."""
        if self.running_in is None:
            return
        self._refuse_other_loop()
        try:
            if self._bulk is not None:
                await self._bulk.close()
            if self._engine is not None:
                await self._engine.stop(self.shutdown_grace_s if grace_s is None else grace_s)
        finally:
            await self.store.close()
            self._bulk = self.running_in = None
            self._drop_engine()

    def _forget_parent(self) -> None:
        """In a forked child: it is not started here, and the parent's run is left alone."""
        forks.leave_to_parent((self._engine, self._bulk))
        self._was_forked = self.running_in is not None
        self._making = threading.Lock()
        self._bulk = self.running_in = None
        self._drop_engine()

    @property
    def has_worker(self) -> bool:
        """Whether it delivers in this process once it is started."""
        return self._worker

    @property
    def engine(self) -> Engine:
        """The running engine, for extensions and tests."""
        if self._engine is None or self.running_in is None:
            was_forked = "was started in the process that forked this one"
            state = was_forked if self._was_forked else "is not started"
            raise NotAllowed(f"Homing {state}: use `async with homing:`, `start()` or homing.sync")
        self._refuse_other_loop()
        return self._engine

    @property
    def ops(self) -> Operations:
        """The operator's verbs. They can be awaited once Homing is started."""
        return self._made_engine().ops if self.running_in is None else self.engine.ops

    def _refuse_other_loop(self) -> None:
        """What waits in one event loop cannot be woken in another."""
        current = asyncio._get_running_loop()
        if current is not None and current is not self.running_in:
            raise NotAllowed(
                "Homing runs in another event loop, that of homing.sync or of another thread:"
                " use homing.sync here, or start Homing in this loop alone"
            )

    @property
    def bulk(self) -> BulkActions:
        """`replay`, `dismiss`, `cancel` and `restore` on many deliveries by filter."""
        if self._bulk is None:
            raise NotAllowed("Homing is not started: use `async with homing:` or `start()`")
        return self._bulk

    @property
    def tokens(self) -> Tokens:
        """API tokens; the store keeps only their hashes."""
        return Tokens(self.store, self._clock, self._rng)

    @property
    def users(self) -> Users:
        """People who may sign in, or are named by a proxy, and their roles."""
        return Users(self.store, self._clock, self._rng)

    async def explain(self, delivery_id: str) -> list[str]:
        """What happened to a delivery, what comes next and when, in plain sentences."""
        return [*await self.ops.explain(delivery_id)]

    async def search(self, text: str, limit: int = 50) -> SearchResult:
        """Deliveries by an id, a recipient, a key, or words of the error of a dead letter."""
        return await self.ops.search(text, limit)

    @property
    def sync(self) -> SyncHoming:
        """The same, for callers without an event loop."""
        return self._sync

    async def submit(
        self,
        message: Message,
        *,
        key: str | None = None,
        route: str | None = None,
        within: object = None,
        **options: Unpack[SubmitOptions],
    ) -> Ticket:
        """Store the message durably and return; a worker delivers it.

        `within` is your own open connection or session: the record is then part of your
        transaction and exists if and when you commit. `SubmitOptions` lists the further keyword
        arguments.
        """
        chosen = self._route_for(message, route)
        request = Request(message=message, key=key, **options)
        if within is not None:
            if not isinstance(self.store, AsyncTransactionalStore):
                raise NotAllowed("this store cannot write inside your transaction")
            transaction = self.store.within_async(within)
            admission = self._admission_within()
            return await admission.submit_within_async(chosen, request, transaction)
        return await self.engine.admission.submit_one(chosen, request)

    async def submit_many(
        self,
        messages: Iterable[Message | tuple[str, Message]],
        *,
        route: str | None = None,
        **options: Unpack[SubmitOptions],
    ) -> list[Ticket | IdempotencyConflict]:
        """Store many messages in one durable write.

        Give (key, message) pairs to make each idempotent. The answers are in the order given. For a
        key that another request has taken the answer is the conflict; the others are stored.
        """
        routes: dict[object, Route] = {}
        if not isinstance(messages, Iterable):
            raise InvalidRequest("messages", "must be a list of messages or (key, message) pairs")
        requests = []
        for item in messages:
            if isinstance(item, tuple) and len(item) != 2:
                raise InvalidRequest("messages", "must be messages or (key, message) pairs")
            key, message = item if isinstance(item, tuple) else (None, item)
            kind = message.name if isinstance(message, Job) else message.__class__
            if kind not in routes:
                routes[kind] = self._route_for(message, route)
            requests.append((routes[kind], Request(message=message, key=key, **options)))
        return await self.engine.admission.submit_each(requests)

    async def submit_requests(
        self, requests: Iterable[tuple[str | None, Request]]
    ) -> list[Ticket | IdempotencyConflict]:
        """As `submit_many`, for (route, request) pairs that differ in their options.

        Without a route, the message decides.
        """
        return await self.engine.admission.submit_each(
            [(self._route_for(request.message, route), request) for route, request in requests]
        )

    def _submit_within(self, route: str | None, request: Request, connection: object) -> Ticket:
        """As `submit(within=…)`, without awaiting: it runs in the caller's own thread.

        Homing need not be started for it. A store may make a missing schema in the same
        transaction, or refuse.
        """
        chosen = self._route_for(request.message, route)
        if not isinstance(self.store, TransactionalStore):
            raise NotAllowed("this store cannot write inside your transaction")
        transaction = self.store.within(connection)
        return self._admission_within().submit_within(chosen, request, transaction)

    def _admission_within(self) -> Admission:
        if self.running_in is None and self.time_scale != 1.0:
            raise NotAllowed("with a time scale Homing must be started first: its clock is stored")
        return self._made_engine().admission

    async def send(
        self,
        message: Message,
        *,
        key: str | None = None,
        route: str | None = None,
        wait: bool = True,
        **options: Unpack[SubmitOptions],
    ) -> Ticket:
        """Store the message, then make the first attempt at once.

        With `wait=False` that attempt is made in the background.
        """
        chosen = self._route_for(message, route)
        request = Request(message=message, key=key, **options)
        await self.engine.ensure_beating()
        return await self.engine.admission.send(chosen, request, wait=wait)

    def on(
        self,
        event_type: str,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        validate: Validate | None = None,
        timeout_s: float = 30.0,
        terminal_errors: TerminalErrors = (),
    ) -> Callable[[F], F]:
        """Make a function the handler of an event type. It is called at least once.

        `terminal_errors` are added to those that end an event at once. `validate` gets the
        payload before the handler: a `ValueError` there ends the event at once, and what it
        returns, unless None, is the handler's `event.data`. A handler of two arguments, `(event,
        connection)`, runs in a transaction of the store's database: what it writes there is done
        once. The store must offer that (`OnceStore`).
        """
        self._not_started("on")
        plain_text("event_type", event_type)

        def register(function: F) -> F:
            self._handlers.add(
                event_type,
                function,
                name=name,
                retry=retry,
                validate=validate,
                timeout_s=timeout_s,
                terminal_errors=terminal_errors,
            )
            return function

        return register

    def job(
        self,
        name: str,
        *,
        stages: Sequence[str] = ("run",),
        retry: Retry | None = None,
        timeout_s: float = 30.0,
        terminal_errors: TerminalErrors = (),
    ) -> Callable[[F], F]:
        """Make a class with a method per stage (or one function) a kind of staged work."""
        self._not_started("job")
        plain_text("name", name)

        def register(work: F) -> F:
            doer = work() if isinstance(work, type) else work
            route = job_route(
                name,
                doer,
                stages,
                retry=retry,
                timeout_s=timeout_s,
                terminal_errors=terminal_errors,
            )
            self._routes.add(route)
            return work

        return register

    async def run_forever(self) -> None:
        """For a worker process: work until cancelled."""
        async with self:
            await asyncio.Event().wait()

    def _route_for(self, message: Message, name: str | None) -> Route:
        if name is None and (usual := self._usual_routes.get(message.__class__)) is not None:
            return usual
        message = plain_message(message)
        is_usual = name is None and not isinstance(message, Job)
        if name is not None:
            plain_text("route", name)
        elif isinstance(message, Email):
            name = MAIL_ROUTE
        else:
            name = EVENT_ROUTE if isinstance(message, Event) else message.name
        engine = self._engine or self._made_engine()
        route = engine.routes.get(name)
        if route is None:
            missing = "; give Homing a `provider=` to send e-mails" if name == MAIL_ROUTE else ""
            raise NotFound(f"no route {name!r}; there are {', '.join(engine.workers)}{missing}")
        if not self.works_on(name):
            raise NotAllowed(f"route {name!r} is only read and repaired here")
        if is_usual:
            self._usual_routes[message.__class__] = route
        return route

    def _not_started(self, what: str) -> None:
        if self.running_in is not None:
            raise NotAllowed(f"call `{what}` before the start: Homing is running already")
        self._drop_engine()  # it may have been made, from fewer routes

    def _drop_engine(self) -> None:
        self._engine = None
        self._usual_routes = {}


def _address_as_stored(text: str) -> str:
    from homing.content.addresses import as_stored

    return as_stored(text)


def use_as_worker(
    homing: Homing,
    *,
    generation: int | None = None,
    observers: Sequence[Observer] = (),
    notifiers: Sequence[Notifier] = (),
    alarm: Alarm | None = None,
    adapt: Callable[[Route], Route] | None = None,
    layouts: Mapping[str, RecordLayout] | None = None,
) -> None:
    """Before the start of an application's Homing: run its worker in this process, whatever
    `worker` says, with these further observers and layouts. Its own alarm, if it has one, stays.
    `adapt` changes its routes."""
    homing._not_started("use_as_worker")
    homing._worker = True
    if generation is not None:
        homing._generation = whole_generation("generation", generation)
    homing._observers += observers
    homing._notifiers += notifiers
    homing._alarm = homing._alarm or alarm
    if adapt is not None:
        homing._routes.adapt(adapt)
    if layouts is not None:
        homing._use_layouts(layouts)


def _ticket(answer: Ticket | IdempotencyConflict) -> Ticket:
    if isinstance(answer, IdempotencyConflict):
        raise answer
    return answer
