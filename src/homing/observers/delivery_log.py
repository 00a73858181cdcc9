"""The delivery log: one line per success, due from the moment the success is stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from homing.domain.delivery import Attempt, Delivery
from homing.domain.redaction import visible
from homing.observers import DELIVERY_LOG
from homing.observers.lines import LineFile

log = logging.getLogger("homing.deliveries")


class DeliveryLog:
    """Writes one line per success of routes that have the notice `delivery_log`."""

    notices: Collection[str] = frozenset({DELIVERY_LOG})

    def __init__(self, path: Path) -> None:
        self._file = LineFile(path)

    async def notify(self, notice: str, delivery: Delivery, attempts: Sequence[Attempt]) -> bool:
        """False while the file cannot be written; the call is then repeated later."""
        del notice, attempts
        at_ms = delivery.ended_at_ms or delivery.updated_at_ms
        when = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
        mark = visible(f"delivery={delivery.id} cycle={delivery.cycle} ")
        line = f"{when} DELIVERED {mark}route={delivery.route} attempts={delivery.attempts_ended}"
        try:
            await asyncio.to_thread(self._file.append, visible(line), unless=mark)
        except OSError as error:
            log.warning("the delivery log cannot be written: %s", error.strerror)
            return False
        return True
