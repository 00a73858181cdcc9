"""The delivery log: one line per success, due from the moment the success is stored."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from homing.domain.delivery import Delivery
from homing.domain.redaction import visible
from homing.observers import DELIVERY_LOG
from homing.observers.lines import LINES_AT_ONCE, LineFile
from homing.ports import Notice

log = logging.getLogger("homing.deliveries")

_MARK = re.compile(rb" DELIVERED delivery=\S+ cycle=\d+ ")


class DeliveryLog:
    """Writes one line per success of routes that have the notice `delivery_log`."""

    notices: Collection[str] = frozenset({DELIVERY_LOG})
    most_at_once = LINES_AT_ONCE

    def __init__(self, path: Path) -> None:
        self._file = LineFile(path, _MARK)

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        """False while the file cannot be written; the call is then repeated later."""
        del kind
        lines = [_line(notice.delivery) for notice in group]
        try:
            await asyncio.to_thread(self._file.append, lines)
        except OSError as error:
            log.warning("the delivery log cannot be written: %s", error.strerror)
            return [False] * len(group)
        return [True] * len(group)


def _line(delivery: Delivery) -> str:
    at_ms = delivery.ended_at_ms or delivery.updated_at_ms
    when = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    return visible(
        f"{when} DELIVERED delivery={delivery.id} cycle={delivery.cycle} route={delivery.route}"
        f" attempts={delivery.attempts_ended}"
    )
