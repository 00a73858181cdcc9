"""The alert log: every dead letter and every alert of the engine."""

from __future__ import annotations

import asyncio
import logging
import subprocess
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from homing.domain.delivery import Attempt, Delivery
from homing.domain.redaction import redact, visible
from homing.observers.lines import LineFile
from homing.ports import Alert

log = logging.getLogger("homing.alerts")

LOGGER_TIMEOUT_S = 5.0


class AlertFile:
    """Lines for people, in this file; if that fails, in the system journal by `logger`.

    Without a file the log on stderr has them.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file = None if path is None else LineFile(path)

    async def add(self, line: str, *, unless: str | None = None) -> bool:
        """True once it is written, or if a line with `unless` exists already."""
        if self._file is None:
            log.error("%s", line)
            return True
        try:
            await asyncio.to_thread(self._file.append, line, unless=unless)
        except OSError as error:
            log.warning("the alert log cannot be written: %s", error.strerror)
            if not await asyncio.to_thread(_to_journal, line):
                log.error("neither the alert log nor the system journal can be written: %s", line)  # noqa: TRY400 - told above
                return False
        return True


class AlertLog:
    """Every dead letter and every alert of the engine, as a line of an `AlertFile`."""

    notices: Collection[str] = frozenset({"alert"})

    def __init__(self, path: Path | None = None) -> None:
        self._file = AlertFile(path)

    @property
    def has_file(self) -> bool:
        """Whether the lines go to a file, and not to the log on stderr."""
        return self._file is not None

    async def notify(self, notice: str, delivery: Delivery, attempts: Sequence[Attempt]) -> bool:
        """One line per dead letter and cycle; no address and no content in it."""
        del notice, attempts
        failure = delivery.failure
        mark = visible(f"delivery={delivery.id} cycle={delivery.cycle} ")
        line = (
            f"[ALERT][homing] DEAD LETTER: {mark}route={delivery.route}"
            f" because={delivery.failed_because} attempts={delivery.attempts_spent}"
            f" last_error={failure.error_class if failure else '-'}"
            f" code={failure.code if failure else '-'}"
        )
        return await self._give(line, delivery.ended_at_ms or delivery.updated_at_ms, mark)

    async def sound(self, alert: Alert) -> bool:
        """The same alert, raised again after a crash, is the same line."""
        text = redact(alert.text)
        return await self._give(f"[ALERT][homing] {alert.kind.upper()}: {text}", alert.at_ms)

    async def _give(self, line: str, at_ms: int, mark: str | None = None) -> bool:
        when = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
        line = visible(f"{when} {line}")
        return await self._file.add(line, unless=mark or line)


def _to_journal(line: str) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - the system's own logger, with one argument
            ["logger", "-t", "homing", "-p", "user.alert", "--", line],  # noqa: S607 - on PATH
            check=False,
            timeout=LOGGER_TIMEOUT_S,
            capture_output=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
