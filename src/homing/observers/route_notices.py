"""Notice writers that differ by route, as one notifier."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from homing.domain.delivery import Attempt, Delivery


class RouteNotices:
    """Passes each notice to the writer for (route, notice); accepts no others."""

    notices: Collection[str]

    def __init__(
        self,
        writers: Mapping[tuple[str, str], Callable[[Delivery, Sequence[Attempt]], Awaitable[bool]]],
    ) -> None:
        self._writers = writers
        self.notices = frozenset(notice for _, notice in writers)

    async def notify(self, notice: str, delivery: Delivery, attempts: Sequence[Attempt]) -> bool:
        writer = self._writers.get((delivery.route, notice))
        return False if writer is None else await writer(delivery, attempts)
