"""The delivery log: one line per success, in the same write window as the state (owed)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from homing.domain.delivery import Attempt, Delivery
from homing.observers.lines import LineFile


class DeliveryLog:
    notices = frozenset({"delivery_log"})

    def __init__(self, path: Path) -> None:
        self._file = LineFile(path)

    async def notify(self, notice: str, delivery: Delivery, attempts: Sequence[Attempt]) -> bool:
        del notice, attempts
        at_ms = delivery.ended_at_ms or delivery.updated_at_ms
        when = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
        mark = f"delivery={delivery.id} "
        line = f"{when} DELIVERED {mark}route={delivery.route} attempt={delivery.attempt_no}"
        try:
            await asyncio.to_thread(self._file.append, line, unless=mark)
        except OSError:
            return False
        return True
