"""What is written when a verdict ends: delivery log, dead-letter file and alerts.

Each is due with the state itself, so that a crash may repeat a line and loses none; every writer
looks for its line first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from homing.domain.delivery import Attempt, Delivery
from homing.observers.alert_log import AlertFile
from homing.observers.lines import LineFile
from homing.plugins import Notices, Setup
from homing.ports import Store
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

    async def log_delivery(self, delivery: Delivery, attempts: Sequence[Attempt]) -> bool:
        del attempts
        line, session_id = delivery_log_line(delivery), delivery.key or ""
        try:
            await asyncio.to_thread(self._delivery_log.append, session_id, line)
        except OSError as error:
            log.warning("the delivery log cannot be written: %s", error.strerror)
            return False
        return True

    async def write_dead_letter(self, delivery: Delivery, attempts: Sequence[Attempt]) -> bool:
        """The whole record; while the file cannot be written, it stays due."""
        content = await self._store.content(delivery.id)
        if content is None:
            return False
        record = dead_letter_record(Stored(delivery, content, tuple(attempts)))
        line = msgspec.json.encode(record).decode()
        try:
            await asyncio.to_thread(self._dead_letters.append, line, unless=line)
        except OSError as error:
            log.warning("the dead-letter file cannot be written: %s", error.strerror)
            return False
        return True

    async def alert(self, delivery: Delivery, attempts: Sequence[Attempt]) -> bool:
        del attempts
        line = alert_line(delivery)
        return await self._alerts.add(line, unless=line)

    async def alert_of_token(self, delivery: Delivery, attempts: Sequence[Attempt]) -> bool:
        del attempts
        line = token_alert_line(delivery)
        return await self._alerts.add(line, unless=line)


def notices(setup: Setup[VerdictSettings]) -> Notices:
    if setup.store is None:
        return {}
    writers = NoticeWriters(setup.settings, setup.store)
    return {
        (NAME, DELIVERY_LOG): writers.log_delivery,
        (NAME, DEAD_LETTER): writers.write_dead_letter,
        (NAME, ALERT): writers.alert,
        (NAME, TOKEN_ALERT): writers.alert_of_token,
    }
