"""Structured logs on stderr: one event per transition, names and numbers only.

Nothing that a customer wrote may reach a log. So of an exception only its kind and its place
are logged, unless its words are our own or the system's; every other text is redacted.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Sequence

import msgspec
import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from homing.domain.errors import HomingError
from homing.domain.redaction import redact, visible
from homing.ports import Transitioned

DELIVERIES = "homing.deliveries"
# How loud each end is: good ends inform, tries again warn, dead letters are errors.
LEVELS = {"delivered": logging.INFO, "suppressed": logging.INFO, "failed": logging.ERROR}
FAILED = logging.WARNING
MAX_FRAMES = 8
MAX_CAUSES = 5
# Libraries that repeat at "info" what we say better.
QUIET = {"httpx": "warning", "opentelemetry": "warning", "urllib3": "warning"}


def configure(level: str, style: str) -> None:
    """Everything of Homing and of its libraries goes through one chain to stderr."""
    shared: list[Processor] = [
        structlog.stdlib.add_logger_name,
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
    # Our own lines about deliveries are made of names and numbers: nothing there to redact.
    clean = visible if event.get("logger") == DELIVERIES else redact
    shown: EventDict = {
        name: clean(value) if isinstance(value, str) else value for name, value in event.items()
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
    """The text of others may quote what a customer wrote."""
    name = type(error).__name__
    if isinstance(error, HomingError):
        return f"{name}: {redact(str(error))}"
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {redact(error.strerror)}"
    return name


class LogObserver:
    """One line per end of a delivery, per failed attempt, and, when debugging, per transition.

    Its chain is its own and short: the library's bridge costs four times as much a line.
    """

    def __init__(self, level: str, style: str) -> None:
        self._least = logging.getLevelNamesMapping()[level.upper()]
        self._log = structlog.wrap_logger(
            structlog.WriteLogger(sys.stderr),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                discreet,
                _renderer(style),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(self._least),
        ).bind(logger=DELIVERIES)

    def observe(self, events: Sequence[Transitioned]) -> None:
        for event in events:
            delivery, failure = event.delivery, event.delivery.failure
            level = LEVELS.get(delivery.state, FAILED if event.name == "fail" else logging.DEBUG)
            if level < self._least:
                continue
            words: dict[str, object] = {
                "delivery": delivery.id,
                "route": delivery.route,
                "state": delivery.state,
                "attempts": delivery.attempts,
            }
            if failure is not None and delivery.state != "delivered":
                words["error_class"] = failure.error_class
                if failure.code:
                    words["code"] = failure.code
            if delivery.failed_because:
                words["because"] = delivery.failed_because
            what = delivery.state if delivery.is_terminal else event.name
            self._log.log(level, what, **words)
