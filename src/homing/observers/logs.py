"""Structured logs on stderr: one event per transition, names and numbers only.

Nothing that a customer wrote may reach a log. So only the type and the place of an exception
are logged, unless its text is our own or the system's; every other text is redacted.
"""

from __future__ import annotations

import functools
import logging
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from homing.domain.errors import HomingError
from homing.domain.redaction import redact, visible
from homing.ports import Transitioned

DELIVERIES = "homing.deliveries"
# Log levels: success is info, a retry is a warning, a dead letter is an error.
LEVELS = {"delivered": logging.INFO, "suppressed": logging.INFO, "failed": logging.ERROR}
FAILED = logging.WARNING
LEVEL_NAMES = {
    level: logging.getLevelName(level).lower()
    for level in (logging.DEBUG, FAILED, *LEVELS.values())
}
_AMBIGUOUS = re.compile(r"[\s=\"']")
NO_FIELDS: Mapping[str, str] = {}
MAX_FRAMES = 8
MAX_CAUSES = 5
# What every record has; the rest was given as `extra`.
USUAL = vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}
# Libraries whose "info" lines repeat our own.
QUIET = {"httpx2": "warning", "opentelemetry": "warning", "urllib3": "warning"}


def configure(level: str, style: str, fields: Mapping[str, str] = NO_FIELDS) -> None:
    """All logs of Homing and of its libraries go through one formatter to stderr.

    `fields` are added to each line of Homing itself.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(style, fields))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, least in QUIET.items():
        logging.getLogger(name).setLevel(least.upper())


class Lines(logging.Formatter):
    """Formats a record as one line of names and values, without customers' texts."""

    def __init__(self, style: str, fields: Mapping[str, str]) -> None:
        super().__init__()
        self._render = _line_renderer(style)
        self._fields = fields

    def format(self, record: logging.LogRecord) -> str:
        words: dict[str, object] = {"event": record.getMessage(), "logger": record.name}
        if record.stack_info is not None:
            words["stack_info"] = record.stack_info
        words |= {name: value for name, value in vars(record).items() if name not in USUAL}
        if str(record.name).startswith("homing"):  # a record made by hand may have no name
            words |= self._fields
        words["level"] = record.levelname.lower()
        when = datetime.fromtimestamp(record.created, UTC)
        words["timestamp"] = when.isoformat(timespec="microseconds").replace("+00:00", "Z")
        return self._render(discreet(words, record.exc_info)).removesuffix("\n")


def discreet(words: Mapping[str, object], exc_info: object = None) -> dict[str, object]:
    """Without secrets, addresses, control characters and texts of foreign exceptions."""
    shown = {
        name: redact(value) if isinstance(value, str) else value for name, value in words.items()
    }
    if words.get("logger") == "asyncio":
        # What follows the first line is the repr of a task and of its exception.
        shown["event"] = redact(str(words.get("event", "")).partition("\n")[0])
    error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
    if isinstance(error, BaseException):
        shown["exception"] = place_of(error)
    return shown


def place_of(error: BaseException) -> str:
    """The kinds and places of an exception and its causes, in one line, innermost first."""
    parts: list[str] = []
    link: BaseException | None = error
    while link is not None and len(parts) < MAX_CAUSES:
        frames = traceback.extract_tb(link.__traceback__, limit=-MAX_FRAMES)
        places = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in reversed(frames)]
        parts.append(" < ".join([_words(link), *places]))
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return " | caused by ".join(parts)


def _words(error: BaseException) -> str:
    """The text of a foreign exception may quote what a customer wrote."""
    name = type(error).__name__
    if isinstance(error, HomingError):
        return f"{name}: {redact(str(error))}"
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {redact(error.strerror)}"
    return name


class LogObserver:
    """One line per end of a delivery, per failed attempt, and, when debugging, per transition.

    Its lines do not go through `logging`: all lines of one call are one write.
    """

    def __init__(self, level: str, style: str, fields: Mapping[str, str] = NO_FIELDS) -> None:
        self._least = logging.getLevelNamesMapping()[level.upper()]
        self._stream = sys.stderr
        self._render = _line_renderer(style)
        self._fields = fields

    def observe(self, events: Sequence[Transitioned]) -> None:
        told = [(level, event) for event in events if (level := _level_of(event)) >= self._least]
        if not told:
            return
        lines = [self._render({**_words_of(event, level), **self._fields}) for level, event in told]
        self._stream.write("".join(lines))
        self._stream.flush()


def _level_of(event: Transitioned) -> int:
    return LEVELS.get(event.delivery.state, FAILED if event.name == "fail" else logging.DEBUG)


@functools.lru_cache(maxsize=1)
def _when(at_ms: int) -> str:
    """All of one call have one time."""
    when = datetime.fromtimestamp(at_ms / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _words_of(event: Transitioned, level: int) -> dict[str, str | int]:
    """Names and numbers only: nothing to redact, and nothing that a terminal would obey."""
    delivery, failure = event.delivery, event.delivery.failure
    words: dict[str, str | int] = {
        "timestamp": _when(event.at_ms),
        "level": LEVEL_NAMES[level],
        "event": delivery.state if delivery.is_terminal else event.name,
        "logger": DELIVERIES,
        "delivery": _plain(delivery.id),
        "route": _plain(delivery.route),
        "state": delivery.state,
        "attempts": delivery.attempts_spent,
    }
    if delivery.parent_id is not None:
        words["parent"] = _plain(delivery.parent_id)
        if (handler := delivery.metadata.get("handler")) is not None:
            words["handler"] = _plain(handler)
    if failure is not None and delivery.state != "delivered":
        words["error_class"] = _plain(failure.error_class)
        if failure.code:
            words["code"] = _plain(failure.code)
    if delivery.failed_because:
        words["because"] = delivery.failed_because
    return words


def _plain(text: str) -> str:
    return text if text.isprintable() else visible(text)


def _line_renderer(style: str) -> Callable[[dict[str, Any]], str]:
    if style == "json":
        return lambda words: msgspec.json.encode(words, enc_hook=str).decode() + "\n"
    if not sys.stderr.isatty():
        return _text_line
    import structlog  # noqa: PLC0415 - it loads what draws on terminals: 6 MB, 0.3 s

    console = structlog.dev.ConsoleRenderer(colors=True)
    return lambda words: console(None, "", words) + "\n"


def _text_line(words: dict[str, Any]) -> str:
    """As the console shows it, without its colours."""
    at, level, event = words.pop("timestamp"), words.pop("level"), words.pop("event")
    error = words.pop("exception", None)
    begin = f"{at} [{level:<9}] {event:<30} [{words.pop('logger')}]"
    said = [f" {name}={_value(value)}" for name, value in sorted(words.items())]
    return "".join([begin, *said, "\n" if error is None else f"\n{error}\n"])


def _value(value: object) -> str:
    """In quotes where it would be ambiguous."""
    if isinstance(value, str) and not _AMBIGUOUS.search(value):
        return value
    return repr(value)
