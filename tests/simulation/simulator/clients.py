"""The callers, and the second oracle: what each of them was told.

A caller whose call fails or is never answered asks again with the same key, as the contract of
idempotency keys says. Some ask twice, some use a key for another request by mistake.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from homing.domain.errors import IdempotencyConflict, InvalidRequest, StoreOutcomeUnknown
from homing.engine.intake.admission import Ticket
from homing.engine.intake.request_checks import at_ms
from tests.simulation.simulator.findings import Findings
from tests.simulation.simulator.hosts import SimProcess
from tests.simulation.simulator.key_checks import KeyChecks
from tests.simulation.simulator.options import Options
from tests.simulation.simulator.requests import Ask, RequestMaker
from tests.simulation.simulator.route_kinds import ROUTE_KINDS
from tests.simulation.simulator.watched_disk import WatchedDisk
from tests.simulation.virtualtime import VirtualTimeLoop

Way: TypeAlias = Literal["submit", "send", "background"]

LARGEST_BATCH = 240
PATIENCE_S = 25.0
MOST_TRIES = 12
ASKED_AFTER_TERMS = 40


class Clients:
    """All callers of the world."""

    def __init__(
        self,
        options: Options,
        rng: random.Random,
        loop: VirtualTimeLoop,
        disk: WatchedDisk,
        keys: KeyChecks,
        findings: Findings,
        any_process: Callable[[], SimProcess | None],
    ) -> None:
        self._options = options
        self._rng = rng
        self._loop = loop
        self._disk = disk
        self._keys = keys
        self._breach = findings.breach
        self._any_process = any_process
        self._requests = RequestMaker(options, rng, loop)
        self.asks: list[Ask] = []
        self.conflicts = 0
        # Small worlds have small batches, so that there are many of them.
        self._largest = max(4, min(LARGEST_BATCH, options.deliveries // 12))
        # For each key: which variant of the request was told which id.
        self.told: dict[tuple[str, str], dict[int, str]] = {}

    @property
    def unsettled(self) -> list[Ask]:
        return [ask for ask in self.asks if not ask.is_settled]

    @property
    def usual_call(self) -> float:
        """How many deliveries a call asks for, on average."""
        return 0.72 * self._largest / 2 + 0.14 * 3.5 + 0.07 * 2.5

    def act(self) -> None:
        """Some caller does something."""
        draw = self._rng.random()
        route = self._rng.choice(self._options.routes)
        if draw < 0.72:
            self.dispatch(self._new(route, self._rng.randint(1, self._largest)), "submit")
        elif draw < 0.86:
            for ask in self._new(route, self._rng.randint(1, 6)):
                self.dispatch([ask], "send")
        elif draw < 0.93:
            for ask in self._new(route, self._rng.randint(1, 4)):
                self.dispatch([ask], "background")
        else:
            self._ask_again()

    def dispatch(self, asks: Sequence[Ask], way: Way) -> None:
        """Call one of the processes; whoever gets no answer in time comes back."""
        asks = [ask for ask in asks if not ask.is_settled]
        process = self._any_process()
        if asks and process is not None:
            self._loop.spawn(process.actor, self._call(process, asks, way), "call")
        if asks:
            self._loop.call_outside(PATIENCE_S, lambda: self._come_back(asks))

    def _come_back(self, asks: Sequence[Ask]) -> None:
        waiting = [ask for ask in asks if not ask.is_settled]
        for ask in waiting:
            ask.tries += 1
            # With no key, an answer that never came may not be asked for again.
            if ask.request.key is None or ask.tries > MOST_TRIES:
                ask.is_settled = True
        if waiting:
            self.dispatch(waiting, "submit")

    def _new(self, route: str, number: int) -> list[Ask]:
        made = []
        for _ in range(number):
            ask = Ask(len(self.asks), route, self._requests.request(route, len(self.asks)))
            self.asks.append(ask)
            made.append(ask)
        return made

    def _ask_again(self) -> None:
        """The same request once more; or, by mistake, another one under the same key."""
        keyed = [ask for ask in self.asks[-400:] if ask.request.key is not None]
        if not keyed:
            return
        asked = self._rng.choice(keyed)
        request, variant = asked.request, asked.variant
        if self._rng.random() < 0.4:
            variant = len(self.asks)
            request = self._requests.request(
                asked.route, len(self.asks), key=request.key, source=request.source
            )
        again = Ask(len(self.asks), asked.route, request, variant)
        self.asks.append(again)
        twice = self._rng.random() < 0.5
        self.dispatch([again], "submit")
        if twice:
            self.dispatch([again], "send")

    async def _call(self, process: SimProcess, asks: Sequence[Ask], way: Way) -> None:
        process.calls += 1
        try:
            await self._ask(process, asks, way)
        finally:
            process.calls -= 1

    async def _ask(self, process: SimProcess, asks: Sequence[Ask], way: Way) -> None:
        engine = process.engine
        if engine is None:
            return
        route = engine.routes[asks[0].route]
        requests = [ask.request for ask in asks]
        try:
            if way == "submit":
                answers = await engine.admission.submit(route, requests)
            else:
                await engine.ensure_beating()
                process.become_known()
                wait = way == "send"
                answers = [await engine.admission.send(route, requests[0], wait=wait)]
        except (InvalidRequest, IdempotencyConflict) as refusal:
            self._refused(asks, refusal)
        except StoreOutcomeUnknown:
            for ask in asks:
                ask.is_settled = ask.is_settled or ask.request.key is None
        except Exception:
            return
        else:
            for ask, answer in zip(asks, answers, strict=True):
                self._answered(ask, answer)

    def _refused(self, asks: Sequence[Ask], refusal: InvalidRequest | IdempotencyConflict) -> None:
        """One bad request makes the whole call fail; alone it is told so."""
        if isinstance(refusal, IdempotencyConflict):
            self._conflict(asks[0], refusal)
        elif len(asks) == 1:
            asks[0].is_settled = True
        else:
            for ask in asks:
                self.dispatch([ask], "submit")

    def _answered(self, ask: Ask, answer: Ticket | IdempotencyConflict) -> None:
        if isinstance(answer, IdempotencyConflict):
            self._conflict(ask, answer)
            return
        ask.is_settled = True
        ask.told_id = answer.delivery_id
        ask.made_it = ask.made_it or answer.created
        if ask.must_be_new and not ask.made_it:
            self._breach("I3", answer.delivery_id, "its key is not free after its term")
        if ask.request.key is not None:
            self._check_one_intent(ask, answer.delivery_id)
        self._check_stored(ask, answer)

    def _conflict(self, ask: Ask, conflict: IdempotencyConflict) -> None:
        ask.is_settled = True
        self.conflicts += 1
        known = self.told.get((conflict.source, conflict.key), {})
        if ask.variant in known and len(self._owners(conflict.source, conflict.key)) == 1:
            self._breach("I3", conflict.key, "a conflict with the very same request")

    def _check_one_intent(self, ask: Ask, delivery_id: str) -> None:
        """A key stands for one delivery, and another request under it is refused (I3)."""
        key = (ask.request.source, ask.request.key or "")
        known = self.told.setdefault(key, {})
        owners = self._owners(*key)
        if delivery_id not in owners:
            self._breach("I3", delivery_id, f"told for key {key[1]}, which never stood for it")
        if len(owners) > 1:
            return  # its term was over and it was taken again, by whatever request came first
        if any(told != delivery_id for told in known.values()):
            self._breach("I3", delivery_id, f"key {key[1]} stands for two deliveries")
        others = [variant for variant in known if variant != ask.variant]
        if others and ROUTE_KINDS[ask.route].on_mismatch == "conflict":
            self._breach("I3", delivery_id, f"key {key[1]} was used by another request")
        known[ask.variant] = delivery_id

    def _owners(self, source: str, key: str) -> Sequence[str]:
        return self._keys.owners.get((source, key), ())

    def ask_after_terms(self, now_ms: int) -> None:
        """The same requests under keys whose term is over: each makes a new delivery (I3)."""
        asked: dict[tuple[str, str], Ask] = {}
        for ask in self.asks:
            request = ask.request
            if ask.told_id is None or request.key is None or request.expires_at is not None:
                continue
            if self._keys.is_free((request.source, request.key), now_ms):
                asked[request.source, request.key] = ask
        for ask in list(asked.values())[-ASKED_AFTER_TERMS:]:
            again = Ask(len(self.asks), ask.route, ask.request, ask.variant, must_be_new=True)
            self.asks.append(again)
            self.dispatch([again], "submit")

    def _check_stored(self, ask: Ask, ticket: Ticket) -> None:
        """What was accepted is stored, as it was asked for (I1)."""
        stored = self._disk.deliveries.get(ticket.delivery_id)
        if stored is None:
            if ticket.delivery_id not in self._disk.removed:
                self._breach("I1", ticket.delivery_id, "told, and not stored")
            return
        told = ticket.delivery.state
        same_cycle = stored.cycle == ticket.delivery.cycle
        ended = told in ("delivered", "failed", "suppressed")
        if ended and same_cycle and stored.state == "in_flight":
            self._breach("I8", stored.id, f"told {told}, stored in flight")
        if ticket.created and stored.priority != ask.request.priority:
            self._breach("I1", stored.id, "stored with another priority")
        is_new = ticket.created and stored.cycle == 1
        if is_new and stored.expires_at_ms != at_ms("expires_at", ask.request.expires_at):
            self._breach("I1", stored.id, "stored with another end")
