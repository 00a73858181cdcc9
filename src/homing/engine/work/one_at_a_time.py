"""Adapts providers that take one send at a time to the interface for many."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from homing.domain.failure import Failure
from homing.ports import Accepted, Envelope, GroupProvider, GroupSend, Provider, Ready


def as_group_provider(provider: Provider) -> GroupProvider:
    return provider if isinstance(provider, GroupProvider) else _OneAtATime(provider)


class _OneAtATime:
    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSend | Failure]:
        ready = await self._provider.prepare(envelopes[0])
        return [ready if isinstance(ready, Failure) else SingleSend(ready)]


class TooLate(Exception):
    """Not sent: its lease has become too short for a send."""


class SingleSend:
    """Its commit runs in a task. `may_commit` is checked right before it: the task may be late."""

    def __init__(self, ready: Ready) -> None:
        self.commit = ready.commit
        self.abandon = ready.abandon
        self.may_commit: Callable[[], bool] = lambda: True
        self._task: asyncio.Task[None] | None = None
        self._is_withdrawn = self._has_begun = False

    def start(self, told: Callable[[Accepted | Failure], None]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._commit(told))

    async def _commit_in_time(self) -> Accepted | Failure:
        if self.may_commit():
            self._has_begun = True
            return await self.commit()
        with contextlib.suppress(Exception):
            await self.abandon()
        raise TooLate

    async def _commit(self, told: Callable[[Accepted | Failure], None]) -> None:
        try:
            answer = await self._commit_in_time()
        except GeneratorExit:
            raise
        except BaseException as error:
            if not self._is_withdrawn:
                told(error)  # type: ignore[arg-type] # the batch decides what an unexpected error means
        else:
            told(answer)

    def withdraw(self) -> bool:
        self._is_withdrawn = True
        if self._task is not None:
            self._task.cancel()
        return self._has_begun
