"""Damage in the files: a copy of it is kept, an alert reports it, and a flipped bit is repaired."""

from __future__ import annotations

import itertools
import logging
import os
import time
from pathlib import Path

from homing.domain.delivery import Fact
from homing.engine.process.alerts import QUARANTINED
from homing.stores.jsonl.correcting import corrected
from homing.stores.jsonl.files import AppendFile
from homing.stores.own_files import open_own_file
from homing.stores.syncing import sync_folder

log = logging.getLogger("homing.stores")


class Damage:
    """`facts` have to be stored: they raise the alerts. Copies are in the folder of the store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.facts: list[Fact] = []

    def keep_end(self, file: AppendFile, start: int) -> None:
        """Of what no finished commit has written, before it is cut off."""
        data = file.read(start, file.size - start)
        text = f"{file.path.name}: its last {len(data)} bytes were not whole"
        self._keep(data, f"{text}; they are in", start)

    def keep_damaged(self, file: AppendFile, start: int, end: int, held: str) -> None:
        """Of bytes between whole lines. `held` says which deliveries they were about."""
        text = f"{file.path.name}: bytes {start} to {end} are damaged; {held}; a copy is in"
        self._keep(file.read(start, end - start), text, start)

    def mend(self, file: AppendFile, start: int) -> bool:
        """Whether the line that begins here is whole now: one flipped bit can be flipped back."""
        data = b"".join(itertools.islice(file.lines(start), 2))
        whole = corrected(data)
        if whole is None:
            return False
        text = f"{file.path.name}: a flipped bit in the line at byte {start} was restored"
        self._keep(data, f"{text}; the damaged line is in", start)
        file.overwrite(start, whole)
        return True

    def _keep(self, data: bytes, text: str, place: int) -> None:
        names = (self._folder / f"damaged-{number}" for number in itertools.count(1))
        copy = next(name for name in names if not name.exists())
        descriptor = open_own_file(copy, os.O_WRONLY | os.O_EXCL)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        sync_folder(self._folder)
        self.tell(f"{text} {self._folder.name}/{copy.name}", place)

    def tell(self, text: str, place: int = 0) -> None:
        log.error("%s detail=%s", QUARANTINED, text)
        now_ms = time.time_ns() // 1_000_000
        self.facts.append(Fact(QUARANTINED, f"{now_ms}-{place}", now_ms, {"text": text}))
