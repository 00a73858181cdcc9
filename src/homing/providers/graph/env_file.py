"""A `.env` file: values are read from it, and one is replaced without touching the other lines.

A replacement is written to a file beside it, synced, and renamed over it: a reader, also after a
crash, sees all of the old text or all of the new one.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

MAX_BYTES = 1024 * 1024

# A quoted value may span lines, so that a line inside of it is not an assignment.
_ASSIGNMENT = re.compile(
    r"(?P<head>[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*)"
    r"(?P<value>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\r\n]*?)"
    r"(?=[ \t]*(?:[ \t]#[^\r\n]*)?(?:\r?\n|\Z))",
    re.DOTALL,
)
_LINE_END = re.compile(r"[^\n]*(?:\n|\Z)")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NEEDS_NO_QUOTES = re.compile(r"[\w@%+=:,./-]*", re.ASCII)


class EnvFile:
    """Several processes may read it at any time. Writers must hold the lock of the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def values(self) -> dict[str, str]:
        """All of them; the last assignment of a name counts, as in a shell."""
        return {found["name"]: _plain(found["value"]) for found in _assignments(self._text())}

    def replace(self, name: str, value: str, *, expected: str) -> bool:
        """Durable when it returns; false if the value is no longer the expected one.

        Raises OSError where the file cannot be replaced.
        """
        text = self._text()
        last = _last_assignment(text, name)
        if last is None or _plain(last["value"]) != expected:
            return False
        new = _quoted(value, _quote_of(last["value"]))
        self._write(text[: last.start("value")] + new + text[last.end("value") :])
        return True

    def _text(self) -> str:
        with self.path.open("rb") as file:
            # Bytes that are not UTF-8 are written back as they are.
            return file.read(MAX_BYTES).decode("utf-8", "surrogateescape")

    def _write(self, text: str) -> None:
        # Writers hold a lock, so that one name is enough and a crash leaves one file at most.
        beside = self.path.with_name(self.path.name + ".new")
        beside.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(beside, flags, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                self._keep_owner(descriptor)
                file.write(text.encode("utf-8", "surrogateescape"))
                file.flush()
                os.fsync(descriptor)
            beside.rename(self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
        _sync_folder(self.path.parent)

    def _keep_owner(self, descriptor: int) -> None:
        """A process of root must not take the file away from the service that reads it."""
        old, new = self.path.stat(), os.fstat(descriptor)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            os.fchown(descriptor, old.st_uid, old.st_gid)


def _assignments(text: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(text):
        found = _ASSIGNMENT.match(text, position)
        if found is not None:
            yield found
            position = found.end()
        line_end = _LINE_END.match(text, position)
        position = len(text) if line_end is None else max(line_end.end(), position + 1)


def _last_assignment(text: str, name: str) -> re.Match[str] | None:
    last = None
    for found in _assignments(text):
        if found["name"] == name:
            last = found
    return last


def _quote_of(value: str) -> str:
    return value[0] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else ""


def _plain(value: str) -> str:
    quote = _quote_of(value)
    if not quote:
        return value
    return _ESCAPED.sub(_unescape if quote == '"' else r"\1", value[1:-1])


def _unescape(found: re.Match[str]) -> str:
    return {"n": "\n", "r": "\r", "t": "\t"}.get(found[1], found[1])


def _quoted(value: str, quote: str) -> str:
    if not quote:
        if _NEEDS_NO_QUOTES.fullmatch(value):
            return value
        quote = "'"
    special = "'\\" if quote == "'" else '"\\$`'
    return quote + "".join(f"\\{each}" if each in special else each for each in value) + quote


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
