"""The alert log: every dead letter and every alert of the engine."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from homing.domain.delivery import Delivery
from homing.domain.redaction import redact, visible
from homing.observers.lines import LINES_AT_ONCE, LineFile
from homing.ports import Alert, Notice

log = logging.getLogger("homing.alerts")

LOGGER_TIMEOUT_S = 5.0
_MARK = re.compile(rb" DEAD LETTER: delivery=\S+ cycle=\d+ ")


class AlertFile:
    """Lines for people, in this file; if that fails, in the system journal by `logger`.

    Without a file the log on stderr has them. `mark` is what identifies a line (`LineFile`).
    """

    def __init__(self, path: Path | None = None, mark: re.Pattern[bytes] | None = None) -> None:
        self._file = None if path is None else LineFile(path, mark)

    async def add(self, lines: Sequence[str]) -> list[bool]:
        """For each, True once it is written, or if it exists already."""
        if self._file is None:
            for line in lines:
                log.error("%s", line)
            return [True] * len(lines)
        try:
            await asyncio.to_thread(self._file.append, lines)
        except OSError as error:
            log.warning("the alert log cannot be written: %s", error.strerror)
            return [await _add_to_journal(line) for line in lines]
        return [True] * len(lines)


class AlertLog:
    """Every dead letter and every alert of the engine, as a line of an `AlertFile`."""

    notices: Collection[str] = frozenset({"alert"})
    most_at_once = LINES_AT_ONCE

    def __init__(self, path: Path | None = None) -> None:
        self._file = AlertFile(path, _MARK)
        # Otherwise the lines go to the log on stderr.
        self.has_file = path is not None

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        """One line per dead letter and cycle; no address and no content in it."""
        del kind
        return await self._file.add([_dead_letter_line(notice.delivery) for notice in group])

    async def sound(self, alert: Alert) -> bool:
        """The same alert, raised again after a crash, is the same line."""
        line = _line(f"{alert.kind.upper()}: {redact(alert.text)}", alert.at_ms)
        [is_given] = await self._file.add([line])
        return is_given


def _dead_letter_line(delivery: Delivery) -> str:
    failure = delivery.failure
    return _line(
        f"DEAD LETTER: delivery={delivery.id} cycle={delivery.cycle} route={delivery.route}"
        f" because={delivery.failed_because} attempts={delivery.attempts_spent}"
        f" last_error={failure.error_class if failure else '-'}"
        f" code={failure.code if failure else '-'}",
        delivery.ended_at_ms or delivery.updated_at_ms,
    )


def _line(text: str, at_ms: int) -> str:
    when = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    return visible(f"{when} [ALERT][homing] {text}")


async def _add_to_journal(line: str) -> bool:
    if await asyncio.to_thread(_to_journal, line):
        return True
    log.error("neither the alert log nor the system journal can be written: %s", line)
    return False


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
