"""A worker process that is there to be killed, stopped and given bad clocks.

    python -m tests.faults.worker SETUP-AS-JSON

It takes orders on stdin, one a line, and ends gracefully when that ends or at SIGTERM:

    submit KEY ADDRESS       accept an e-mail            -> acked KEY ID
    send KEY ADDRESS         accept and attempt it       -> acked KEY ID
    job KEY WORD             accept a job; the word `kill` kills whoever works on it
    hold KEY                 accept a job and work on it in this very process, until released
                                                         -> holding KEY, and at its end acked KEY ID
    release                  let go of what is held
    load PREFIX FIRST COUNT  accept many e-mails, each key `PREFIX-NUMBER`, from many callers
    claim                    claim from now on, where the setup says to wait for this
    end                      wait for the orders before it, and until nothing is open -> ended
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import CLAIMABLE_STATES
from homing.domain.errors import StoreError
from homing.domain.message import Email, Job
from homing.domain.policy import Ladder, OnUnknown, Plan, Retry
from homing.engine.intake.admission import Ticket
from homing.engine.route import Route
from homing.engine.work.function_step import HandlerCall
from homing.engine.work.handlers import Handlers, job_route
from homing.observers.alert_log import AlertLog
from homing.ports import Facet, Provider, Query
from homing.runtime.app import Homing
from homing.runtime.mail_route import mail_route
from homing.stores.emergency import FileJournal
from tests.faults.shared_time import SharedClock, SharedTime
from tests.faults.traps import (
    LookingStub,
    Trap,
    TrappedJsonl,
    TrappedPostgres,
    TrappedStore,
    TrappedStub,
    Traps,
    say,
)

AnyTrapped: TypeAlias = TrappedStore | TrappedJsonl | TrappedPostgres
CALLERS = 32
OPEN = Query(facets=tuple(Facet(state=state) for state in sorted(CLAIMABLE_STATES)))
RETRY = Retry(Ladder((0.05,)), max_attempts=7)
# What a load consists of, in turn.
ADDRESSES = (*["ok@stub.test"] * 17, "bounce@stub.test", "soft-1@stub.test", "suppressed@stub.test")
BURN = "burn"
EXIT_OF_A_KILLER = 86


class Setup(Struct, frozen=True, kw_only=True):
    """One life of a worker. Without `lease_s`, the leases are those of production.

    With `claims_when_told` it accepts, but claims nothing before the order to `claim`: a claim
    may share the commit of an accept, and then nobody could say which of both came first.
    """

    folder: Path
    store: Path
    time: Path
    # Of a server, instead of the file `store`; the emergency journal is beside that path anyway.
    store_url: str | None = None
    lease_s: float | None = None
    on_unknown: OnUnknown = "retry"
    can_look: bool = False
    latency_ms: int = 0
    busy_timeout_s: float = 5.0
    traps: tuple[Trap, ...] = ()
    claims_when_told: bool = False

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    @property
    def alerts(self) -> Path:
        return self.folder / "alerts.log"

    @property
    def emergency(self) -> Path:
        return self.store.with_name(self.store.name + ".emergency")


class BriskRoute(Route, frozen=True, kw_only=True):
    """A route whose leases a test can outwait."""

    brisk_lease_s: float

    @functools.cached_property
    def lease_s(self) -> float:
        return self.brisk_lease_s


def build(setup: Setup, store: AnyTrapped, traps: Traps, released: asyncio.Event) -> Homing:
    stub = LookingStub if setup.can_look else TrappedStub
    provider = stub(traps, setup.ledger, setup.latency_ms / 1000)
    mail, burn = _mail(setup, provider), job_route(BURN, _burning(released), ("run",))
    routes = [mail, burn, Handlers().route()]
    if setup.lease_s is not None:
        routes = [_brisk(route, setup.lease_s) for route in routes]
    return Homing(
        store,
        provider=provider,
        routes=routes,
        clock=SharedClock(SharedTime(setup.time)),
        journal=FileJournal(setup.emergency),
        notifiers=(AlertLog(setup.alerts),),
    )


def _mail(setup: Setup, provider: Provider) -> Route:
    route = mail_route(provider)
    stages = tuple(replace(stage, retry=RETRY) for stage in route.plan.stages)
    return replace(route, plan=replace(route.plan, on_unknown=setup.on_unknown, stages=stages))


def _brisk(route: Route, lease_s: float) -> Route:
    fields = {name: getattr(route, name) for name in route.__struct_fields__}
    fields |= {"poll_s": 2.0, "brisk_lease_s": lease_s}
    if route.provider is not None:
        # A send must fit into its lease; other work has its lease renewed for as long as it takes.
        fields["plan"] = _quick(route.plan, lease_s)
    return BriskRoute(**fields)


def _quick(plan: Plan, lease_s: float) -> Plan:
    return replace(plan, stages=tuple(replace(s, timeout_s=lease_s * 0.4) for s in plan.stages))


def _burning(released: asyncio.Event) -> Callable[[HandlerCall], Awaitable[None]]:
    async def burn(call: HandlerCall) -> None:
        if call.data == "kill":
            os._exit(EXIT_OF_A_KILLER)
        if call.data == "hold":
            say(f"holding {call.key}")
            await released.wait()

    return burn


class Orders:
    def __init__(self, homing: Homing, may_claim: asyncio.Event, released: asyncio.Event) -> None:
        self._homing = homing
        self._may_claim = may_claim
        self._released = released
        self._under_way: set[asyncio.Task[None]] = set()
        self._known: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
            "submit": self._submit,
            "send": self._send,
            "job": self._job,
            "hold": self._hold,
            "release": self._release,
            "load": self._load,
            "claim": self._claim,
            "end": self._end,
        }

    def obey(self, line: str) -> None:
        """Begin with it; orders are carried out side by side."""
        word, *rest = line.split()
        call = self._known[word](*rest)
        task = asyncio.get_running_loop().create_task(call)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _submit(self, key: str, address: str) -> None:
        await self._accept(key, self._homing.submit(_email(address), key=key))

    async def _send(self, key: str, address: str) -> None:
        await self._accept(key, self._homing.send(_email(address), key=key))

    async def _job(self, key: str, word: str) -> None:
        await self._accept(key, self._homing.submit(Job(BURN, word), key=key))

    async def _hold(self, key: str) -> None:
        await self._accept(key, self._homing.send(Job(BURN, "hold"), key=key))

    async def _release(self) -> None:
        self._released.set()

    async def _claim(self) -> None:
        self._may_claim.set()

    async def _accept(self, key: str, call: Awaitable[Ticket]) -> None:
        try:
            ticket = await call
        except StoreError as error:
            say(f"refused {key} {type(error).__name__}")
        else:
            say(f"acked {key} {ticket.delivery_id}")

    async def _load(self, prefix: str, first: str, count: str) -> None:
        numbers = iter(range(int(first), int(first) + int(count)))

        async def call() -> None:
            for number in numbers:
                await self._submit(f"{prefix}-{number}", ADDRESSES[number % len(ADDRESSES)])

        await asyncio.gather(*(call() for _ in range(CALLERS)))

    async def _end(self) -> None:
        before = [task for task in self._under_way if task is not asyncio.current_task()]
        await asyncio.gather(*before)
        while sum((await self._homing.store.count(OPEN)).values()):
            await self._homing.store.wait(0.05)
        say("ended")


def _email(address: str) -> Email:
    return Email(to=address, subject="Booked", text="See you on Monday.")


async def main(setup: Setup) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    traps, released = Traps(setup.traps), asyncio.Event()
    store: AnyTrapped
    if setup.store_url is not None:
        store = TrappedPostgres(setup.store_url, traps)
    else:
        kind = TrappedJsonl if setup.store.suffix == ".jsonl" else TrappedStore
        store = kind(setup.store, traps, setup.busy_timeout_s)
    if not setup.claims_when_told:
        store.may_claim.set()
    homing = build(setup, store, traps, released)
    await homing.start()
    say("ready")
    listening = loop.create_task(_listen(Orders(homing, store.may_claim, released), stop))
    await stop.wait()
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await homing.stop()
    say("stopped")


async def _listen(orders: Orders, stop: asyncio.Event) -> None:
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        orders.obey(line.decode())
    stop.set()


def _decode(value_type: type, value: Any) -> Any:
    return value_type(value)


def _encode(value: object) -> object:
    return str(value)


def setup_to_text(setup: Setup) -> str:
    return msgspec.json.encode(setup, enc_hook=_encode).decode()


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Setup, dec_hook=_decode)))
