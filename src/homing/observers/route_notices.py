"""Notice writers that differ by route, as one notifier."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from homing.ports import Notice


class RouteNotices:
    """Passes notices to the writer for (route, kind); accepts no others."""

    notices: Collection[str]
    # A writer that takes 0.2 s for each of them still answers in time.
    most_at_once = 32

    def __init__(
        self,
        writers: Mapping[tuple[str, str], Callable[[Sequence[Notice]], Awaitable[Sequence[bool]]]],
    ) -> None:
        self._writers = writers
        self.notices = frozenset(kind for _, kind in writers)

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        by_route: dict[str, list[Notice]] = {}
        for notice in group:
            by_route.setdefault(notice.delivery.route, []).append(notice)
        taken: set[str] = set()
        for route, notices in by_route.items():
            writer = self._writers.get((route, kind))
            if writer is not None:
                answers = zip(notices, await writer(notices), strict=True)
                taken.update(notice.delivery.id for notice, done in answers if done)
        return [notice.delivery.id in taken for notice in group]
