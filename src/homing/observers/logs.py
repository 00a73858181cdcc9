"""Structured logs on stderr: one event per transition, names and numbers only.

Nothing that a customer wrote may reach a log. So of an exception only its kind and its place
are logged, unless its words are our own or the system's; every other text is redacted.
"""

from __future__ import annotations

import functools
import logging
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
import structlog
from structlog.types import EventDict, Processor, WrappedLogger

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
# Libraries whose "info" lines repeat our own.
QUIET = {"httpx2": "warning", "opentelemetry": "warning", "urllib3": "warning"}


def configure(level: str, style: str, fields: Mapping[str, str] = NO_FIELDS) -> None:
    """All logs of Homing and of its libraries go through one chain to stderr.

    `fields` are added to each line of Homing itself.
    """

    def add_fields(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        del logger, method
        if str(event.get("logger", "")).startswith("homing"):
            event.update(fields)
        return event

    shared: list[Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        add_fields,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                discreet,
                _renderer(style),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, least in QUIET.items():
        logging.getLogger(name).setLevel(least.upper())


def _renderer(style: str) -> Processor:
    if style == "json":
        return structlog.processors.JSONRenderer(serializer=_json)
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())


def _json(event: EventDict, **options: object) -> str:
    del options
    return msgspec.json.encode(event, enc_hook=str).decode()


def discreet(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """No secret, no address, no control character, no words of a foreign exception."""
    del logger, method
    error = event.pop("exc_info", None)
    shown: EventDict = {
        name: redact(value) if isinstance(value, str) else value for name, value in event.items()
    }
    if event.get("logger") == "asyncio":
        # What follows the first line is the repr of a task and of its exception.
        shown["event"] = redact(str(event.get("event", "")).partition("\n")[0])
    if error is True:
        error = sys.exc_info()
    if isinstance(error, tuple):
        error = error[1]
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

    Its lines do not go through the library's chain, which costs ten times as much a line, and
    all lines of one call are one write.
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


def _line_renderer(style: str) -> Callable[[dict[str, str | int]], str]:
    if style == "json":
        return lambda words: msgspec.json.encode(words).decode() + "\n"
    if not sys.stderr.isatty():
        return _text_line
    console = structlog.dev.ConsoleRenderer(colors=True)
    return lambda words: console(None, "", words) + "\n"


def _text_line(words: dict[str, str | int]) -> str:
    """As the console shows it, without its colours."""
    at, level, event = words.pop("timestamp"), words.pop("level"), words.pop("event")
    begin = f"{at} [{level:<9}] {event:<30} [{words.pop('logger')}]"
    said = [f" {name}={_value(value)}" for name, value in sorted(words.items())]
    return "".join([begin, *said, "\n"])


def _value(value: str | int) -> str | int:
    """In quotes where it could be taken for something else."""
    return repr(value) if isinstance(value, str) and _AMBIGUOUS.search(value) else value
