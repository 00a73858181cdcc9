"""Who is told: records every notice and alarm that was really given."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from homing.domain.delivery import Fact
from homing.ports import Alert, Notice


class NoticeLog:
    """Notices by delivery and the version in which it died; alarms by kind and key."""

    def __init__(
        self,
        refused: float,
        rng: random.Random,
        fault: Callable[[str], None],
        now_s: Callable[[], float],
    ) -> None:
        self._now_s = now_s
        self._refused = refused
        self._roll = rng.random
        self._fault = fault
        self.faults_on = True
        self.notices: dict[str, Counter[str]] = {}
        self.alarms: Counter[tuple[str, str]] = Counter()
        # How often each route was paused by a fault, and for how long at most.
        self.paused: Counter[str] = Counter()
        self.longest_s: dict[str, float] = {}
        self._since_s: dict[str, float] = {}

    def noted(self, fact: Fact) -> None:
        """A route was paused or goes on."""
        if fact.kind != "paused":
            return
        by_fault = fact.value is not None and fact.value.get("by") == "fault"
        if by_fault and fact.key not in self._since_s:
            self.paused[fact.key] += 1
            self._since_s[fact.key] = self._now_s()
        elif not by_fault and fact.key in self._since_s:
            for_s = self._now_s() - self._since_s.pop(fact.key)
            self.longest_s[fact.key] = max(for_s, self.longest_s.get(fact.key, 0.0))

    def refuses(self) -> bool:
        if not self.faults_on or self._roll() >= self._refused:
            return False
        self._fault("notice_refused")
        return True


class RecordingNotifier:
    """Gives alerts; sometimes it cannot, and sometimes it breaks."""

    def __init__(self, told: NoticeLog) -> None:
        self.notices: Collection[str] = ("alert",)
        self.most_at_once = 3
        self._told = told

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        return [self._is_told(kind, notice.delivery.id) for notice in group]

    def _is_told(self, kind: str, delivery_id: str) -> bool:
        if self._told.refuses():
            return False
        self._told.notices.setdefault(delivery_id, Counter())[kind] += 1
        return True


class RecordingAlarm:
    def __init__(self, told: NoticeLog) -> None:
        self._told = told

    async def sound(self, alert: Alert) -> bool:
        if self._told.refuses():
            return False
        self._told.alarms[alert.kind, alert.key] += 1
        return True
