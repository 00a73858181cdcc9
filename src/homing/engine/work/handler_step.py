"""The step of one event handler: payload validation, and no second call for a handled event.

A delivered record shows that its handler has handled the event. If it is known in another way (a
transaction of the handler was committed, or another program has recorded it), there is a fact of
the kind `event_handled`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from homing.domain.delivery import Delivery, Fact
from homing.domain.failure import Failure
from homing.domain.message import Json
from homing.engine.work.function_step import (
    NOTHING_TO_KEEP,
    Function,
    FunctionStep,
    HandlerCall,
    TerminalErrors,
    event_id,
    handler_call,
    outcome_of,
)
from homing.engine.work.handler_retry import terminal
from homing.ports import FactLookup, OnceStore, Outcome, Store, Work

Validate: TypeAlias = Callable[[Json], Json]

HANDLED = "event_handled"
NONE: frozenset[str] = frozenset()


class HandlerStep(FunctionStep):
    """Calls one handler, unless a fact says that it has handled the event already."""

    def __init__(
        self, name: str, function: Function, terminal_errors: TerminalErrors, store: Store | None
    ) -> None:
        super().__init__(function, terminal_errors)
        self._name = name
        self._store = store
        # Asked once: a check of a Protocol costs 40 calls.
        given: object = store
        self._lookup = given if isinstance(given, FactLookup) else None

    async def handled_before(self, deliveries: Sequence[Delivery]) -> frozenset[str]:
        """The ids of those that need no call.

        If the store cannot look up many facts at once, only deliveries that were tried before are
        looked up: only an earlier attempt writes such facts there.
        """
        if self._lookup is not None:
            by_key = {self._key(delivery): delivery.id for delivery in deliveries}
            known = await self._lookup.known_facts(HANDLED, list(by_key))
            return frozenset([by_key[key] for key in known]) if known else NONE
        if self._store is None:
            return NONE
        tried = [each for each in deliveries if each.attempts_ended or each.cycle > 1]
        return frozenset(
            [
                each.id
                for each in tried
                if any(
                    fact.key == self._key(each)
                    for fact in await self._store.facts(HANDLED, self._key(each), 1)
                )
            ]
        )

    def _key(self, delivery: Delivery) -> str:
        return f"{event_id(delivery)}/{self._name}"


class OnceStep(HandlerStep):
    """Calls a handler in a transaction of the store's database, with the fact written first.

    What the handler writes there is committed with the fact, so it is done once. A returned failure
    rolls it back like a raised one.
    """

    def __init__(
        self, name: str, function: Function, terminal_errors: TerminalErrors, store: OnceStore
    ) -> None:
        super().__init__(name, function, terminal_errors, None)
        self._once = store.once

    async def __call__(self, work: Work) -> Outcome:
        event = handler_call(work)
        value = {"key": event.key, "handler": self._name, "event_id": event.id}
        fact = Fact(HANDLED, self._key(work.delivery), work.now_ms, {**value})
        try:
            async with self._once(fact) as connection:
                if connection is None:
                    return NOTHING_TO_KEEP
                returned = self._function(event, connection)
                if inspect.isawaitable(returned):
                    returned = await returned
                return NOTHING_TO_KEEP if returned is None else _kept(outcome_of(returned))
        except _Undo as undo:
            return undo.failure
        except self._terminal_errors as error:
            return terminal(error)


class _Undo(Exception):
    """Rolls the transaction back."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error_class)
        self.failure = failure


def _kept(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Failure):
        raise _Undo(outcome)
    return outcome


def validated(function: Function, validate: Validate) -> Function:
    """Validation is a separate phase: a ValueError there is terminal, in the handler it is not.

    The return value of `validate` replaces the payload; None leaves it unchanged.
    """

    def call(event: HandlerCall, *more: object) -> object:
        try:
            data = validate(event.data)
        except ValueError as error:
            return terminal(error)
        return function(event if data is None else replace(event, data=data), *more)

    return call
