"""Checks of the files. Only reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from homing.ports import Finding
from homing.stores.files import file_findings
from homing.stores.jsonl.locking import SUFFIX as LOCK
from homing.stores.jsonl.log import JOURNAL, folder_of

EMERGENCY = "emergency"


def findings(path: Path) -> Iterator[Finding]:
    folder = folder_of(path)
    files = [path, path.with_name(path.name + LOCK)]
    if folder.exists():
        files += [folder / JOURNAL, folder / EMERGENCY]
    found = [finding for file in files for finding in file_findings(file)]
    yield from found or [Finding("files", "good", f"{path.name}: modes are as they should be")]
    for copy in sorted(folder.glob("damaged-*")):
        detail = f"{copy} contains what could not be read; check it, then remove it"
        yield Finding("store", "warning", detail)
