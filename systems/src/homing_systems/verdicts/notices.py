"""What is written when a verdict ends: delivery log, dead-letter file and alerts.

Each is due with the state itself, so that a crash may repeat a line and loses none; every writer
looks for its line first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from homing.observers.alert_log import AlertFile
from homing.observers.lines import LineFile
from homing.plugins import Notices, Setup
from homing.ports import Notice, Store
from homing.stores.layout import Stored
from homing_systems.verdicts.delivery_log import log_at
from homing_systems.verdicts.lines import alert_line, delivery_log_line, token_alert_line
from homing_systems.verdicts.record import dead_letter_record
from homing_systems.verdicts.route import ALERT, DEAD_LETTER, DELIVERY_LOG, NAME, TOKEN_ALERT
from homing_systems.verdicts.settings import VerdictSettings

log = logging.getLogger("homing.verdicts")


class NoticeWriters:
    """The files of one program."""

    def __init__(self, settings: VerdictSettings, store: Store) -> None:
        self._store = store
        self._delivery_log = log_at(settings.delivery_log)
        self._dead_letters = LineFile(Path(settings.dead_letters))
        self._alerts = AlertFile(Path(settings.alert_log))

    async def log_deliveries(self, group: Sequence[Notice]) -> Sequence[bool]:
        lines = {notice.delivery.key or "": delivery_log_line(notice.delivery) for notice in group}
        is_written = await _is_written("delivery log", lambda: self._delivery_log.append(lines))
        return [is_written] * len(group)

    async def write_dead_letters(self, group: Sequence[Notice]) -> Sequence[bool]:
        """The whole records; while the file cannot be written, they stay due."""
        lines = [await self._dead_letter(notice) for notice in group]
        known = [line for line in lines if line is not None]
        is_written = await _is_written("dead-letter file", lambda: self._dead_letters.append(known))
        return [is_written and line is not None for line in lines]

    async def _dead_letter(self, notice: Notice) -> str | None:
        content = await self._store.content(notice.delivery.id)
        if content is None:
            return None
        record = dead_letter_record(Stored(notice.delivery, content, tuple(notice.attempts)))
        return msgspec.json.encode(record).decode()

    async def alert(self, group: Sequence[Notice]) -> Sequence[bool]:
        return await self._alerts.add([alert_line(notice.delivery) for notice in group])

    async def alert_of_token(self, group: Sequence[Notice]) -> Sequence[bool]:
        return await self._alerts.add([token_alert_line(notice.delivery) for notice in group])


async def _is_written(name: str, append: Callable[[], None]) -> bool:
    try:
        await asyncio.to_thread(append)
    except OSError as error:
        log.warning("the %s cannot be written: %s", name, error.strerror)
        return False
    return True


def notices(setup: Setup[VerdictSettings]) -> Notices:
    if setup.store is None:
        return {}
    writers = NoticeWriters(setup.settings, setup.store)
    return {
        (NAME, DELIVERY_LOG): writers.log_deliveries,
        (NAME, DEAD_LETTER): writers.write_dead_letters,
        (NAME, ALERT): writers.alert,
        (NAME, TOKEN_ALERT): writers.alert_of_token,
    }
