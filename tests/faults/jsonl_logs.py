"""The log of a JSONL store, opened and locked without the store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from homing.stores.jsonl.log import Log


@contextmanager
def opened(queue: Path) -> Iterator[Log]:
    log = Log(queue, None)
    try:
        with log.locked(time.monotonic() + 5):
            yield log
    finally:
        log.close()
