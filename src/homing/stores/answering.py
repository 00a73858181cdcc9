"""A store's thread answers in the event loop of its callers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol


class Answered(Protocol):
    """A request that was worked off: it has an answer or an error."""

    future: asyncio.Future[Any]
    answer: Any
    error: BaseException | None


def call_in(
    loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any
) -> None:
    # If the loop was closed first, no caller waits any more.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)


def settle(
    future: asyncio.Future[Any], answer: object = None, error: BaseException | None = None
) -> None:
    if future.done():  # its caller was cancelled
        return
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)


def answer_all(jobs: Iterable[Answered], tell: Callable[[], None] | None) -> None:
    """`tell` is called after them, if something may have become due."""
    for job in jobs:
        settle(job.future, job.answer, job.error)
    if tell is not None:
        tell()
