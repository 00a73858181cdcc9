"""Structured logs on stderr: one event per transition, names and numbers only."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import structlog

from homing.ports import Transitioned

# How loud each end is: good ends inform, tries again warn, dead letters are errors.
LEVELS = {"delivered": "info", "suppressed": "info", "failed": "error"}


def configure(level: str, style: str) -> None:
    """Everything of Homing and of its libraries goes through one chain to stderr."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                # Traces without locals: a local may be anybody's address.
                structlog.processors.format_exc_info,
                last,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


class LogObserver:
    def __init__(self) -> None:
        self._log = structlog.stdlib.get_logger("homing.deliveries")
        self._level = logging.getLogger("homing.deliveries")

    def observe(self, events: Sequence[Transitioned]) -> None:
        for event in events:
            delivery, failure = event.delivery, event.delivery.failure
            level = LEVELS.get(delivery.state, "warning" if event.name == "fail" else "debug")
            if not self._level.isEnabledFor(getattr(logging, level.upper())):
                continue
            words: dict[str, object] = {
                "delivery": delivery.id,
                "route": delivery.route,
                "state": delivery.state,
                "attempts": delivery.attempts,
            }
            if failure is not None and delivery.state != "delivered":
                words |= {"error_class": failure.error_class, "code": failure.code}
            if delivery.failed_because:
                words["because"] = delivery.failed_because
            what = delivery.state if delivery.is_terminal else event.name
            getattr(self._log, level)(what, **words)
