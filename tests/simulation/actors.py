"""Whose callback is whose: the actors of a loop in virtual time, and their lean handles."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Any

KEPT_TASKS = 256


class Step(asyncio.Handle):
    """A callback that is ready; a lean handle, since there are very many of them."""

    __slots__ = ()

    _callback: Callable[..., object] | None
    _args: tuple[Any, ...]
    _cancelled: bool
    _context: contextvars.Context

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = None
        self._args = ()

    def __repr__(self) -> str:
        return f"<step {self._callback!r}{' cancelled' if self._cancelled else ''}>"


class Timer(asyncio.TimerHandle):
    """A callback for later."""

    __slots__ = ()

    _callback: Callable[..., object] | None
    _args: tuple[Any, ...]
    _cancelled: bool
    _context: contextvars.Context
    _when: float

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context,
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = None
        self._args = ()

    def __repr__(self) -> str:
        return f"<timer at {self._when} {self._callback!r}>"


class Actor:
    """One owner of callbacks. What it starts while it runs belongs to it as well.

    `countdown` counts its callbacks down; at zero `on_countdown` is called between two of them.
    """

    __slots__ = (
        "_tasks",
        "broken_callbacks",
        "countdown",
        "is_alive",
        "is_frozen",
        "name",
        "number",
        "on_countdown",
        "queue",
    )

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.queue: deque[Step | Timer] = deque()
        self.countdown: int | None = None
        self.on_countdown: Callable[[], None] | None = None
        self.is_alive = True
        self.is_frozen = False
        self._tasks: list[asyncio.Task[Any]] = []
        # What callbacks raised that are no tasks; asyncio would log it and go on.
        self.broken_callbacks: list[Exception] = []

    def __lt__(self, other: Actor) -> bool:
        return self.number < other.number

    @property
    def unfinished(self) -> list[asyncio.Task[Any]]:
        return [task for task in self._tasks if not task.done()]

    @property
    def failed(self) -> list[asyncio.Task[Any]]:
        """Tasks that ended in an exception that nobody asked for."""
        return [
            task
            for task in self._tasks
            if task.done() and not task.cancelled() and task.exception() is not None
        ]

    def forget(self) -> None:
        self._tasks.clear()

    def keep(self, task: asyncio.Task[Any]) -> None:
        # Tasks are held here, so that those of a killed actor are never collected: collecting
        # a coroutine would run its `finally`, which a dead process does not do.
        self._tasks.append(task)
        if len(self._tasks) > KEPT_TASKS and not len(self._tasks) % KEPT_TASKS:
            ended = set(map(id, self.failed))
            self._tasks = [t for t in self._tasks if not t.done() or id(t) in ended]


ACTOR: contextvars.ContextVar[Actor] = contextvars.ContextVar("actor")
