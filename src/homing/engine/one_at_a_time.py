"""Providers that take one send at a time, in the form of those that take many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from homing.domain.failure import Failure
from homing.ports import Accepted, Envelope, GroupProvider, GroupSend, Provider, Ready


def takes_many(provider: Provider) -> bool:
    return isinstance(provider, GroupProvider)


def as_group_provider(provider: Provider) -> GroupProvider:
    return provider if isinstance(provider, GroupProvider) else _OneAtATime(provider)


class _OneAtATime:
    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSend | Failure]:
        ready = await self._provider.prepare(envelopes[0])
        return [ready if isinstance(ready, Failure) else _Started(ready)]


class _Started:
    """Its commit runs in a task."""

    def __init__(self, ready: Ready) -> None:
        self.commit = ready.commit
        self.abandon = ready.abandon
        self._task: asyncio.Task[None] | None = None
        self._is_withdrawn = False

    def start(self, told: Callable[[Accepted | Failure], None]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._commit(told))

    async def _commit(self, told: Callable[[Accepted | Failure], None]) -> None:
        try:
            answer = await self.commit()
        except GeneratorExit:
            raise
        except BaseException as error:
            if not self._is_withdrawn:
                told(error)  # type: ignore[arg-type] # what a surprise means, the batch decides
        else:
            told(answer)

    def withdraw(self) -> None:
        self._is_withdrawn = True
        if self._task is not None:
            self._task.cancel()
