"""The e-mail every mail contestant sends: about 1 KB, plain text, into smtp-sink."""

import os
import time
from pathlib import Path

SENDER = "a@example.com"
RECIPIENT = "b@example.com"
SUBJECT = "Hello"
BODY = ("y" * 70 + "\n") * 13

TAIL_BYTES = 256
POLL_S = 0.01


def arrived(sink_log: Path) -> int:
    """How many messages smtp-sink has accepted; it writes a running count after each event."""
    with sink_log.open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
        _, found, count = log.read().rpartition(b"mesg=")
    return int(count.split()[0]) if found and count.split() else 0


def await_arrival(sink_log: Path, mails: int, limit_s: float) -> None:
    """Wait until the sink has counted so many; raise when the time is over."""
    deadline_s = time.monotonic() + limit_s
    while (count := arrived(sink_log)) < mails:
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"only {count} of {mails} mails arrived in {limit_s} s")
        time.sleep(POLL_S)
