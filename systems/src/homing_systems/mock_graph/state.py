"""What the fake remembers, in a folder: accepted mails, calls, and which tokens it has issued."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from homing_systems.mock_graph.mail import Mail


class Accepted(Struct, frozen=True):
    """A line of the ledger. `recipient` is the first of `recipients`."""

    recipient: str
    recipients: tuple[str, ...]
    subject: str
    body: str
    html: str | None
    time: str
    message_id: str
    sha256: str
    via: str


class Call(Struct, frozen=True):
    """`status` is 0 where the connection was cut."""

    time: str
    method: str
    path: str
    status: int
    retry_after: str | None = None
    recipients: tuple[str, ...] = ()
    query: str = ""


class Draft(Struct):
    id: str
    mail: Mail
    created: str
    sent: str | None = None


class Known(Struct):
    """Is written whole at every change."""

    access_tokens: dict[str, float] = field(default_factory=dict)
    refresh_tokens: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    drafts: dict[str, Draft] = field(default_factory=dict)
    is_revoked: bool = False


class State:
    """The files outlive the fake: after a restart, tokens and drafts are as they were."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._ledger = folder / "ledger.jsonl"
        self._calls = folder / "calls.jsonl"
        self._file = folder / "state.json"
        self.known = Known()
        if self._file.exists():
            self.known = msgspec.json.decode(self._file.read_bytes(), type=Known)

    def accept(self, mail: Mail, via: str, time: str) -> None:
        """Before the answer, so that the ledger has all that was acknowledged."""
        entry = Accepted(
            recipient=mail.recipients[0],
            recipients=mail.recipients,
            subject=mail.subject,
            body=mail.body,
            html=mail.html,
            time=time,
            message_id=mail.message_id,
            sha256=mail.sha256,
            via=via,
        )
        _append(self._ledger, entry)

    def called(self, call: Call) -> None:
        _append(self._calls, call)

    def ledger(self) -> list[dict[str, Any]]:
        return _lines(self._ledger)

    def calls(self) -> list[dict[str, Any]]:
        return _lines(self._calls)

    def new_name(self, kind: str) -> str:
        return f"mock-{kind}-{secrets.token_urlsafe(24)}"

    def save(self) -> None:
        beside = self._file.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(self.known))
        beside.rename(self._file)


def _append(path: Path, value: object) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, msgspec.json.encode(value) + b"\n")
    finally:
        os.close(descriptor)


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    # What stands after the last line feed is being written.
    *whole, _ = path.read_bytes().split(b"\n")
    return [msgspec.json.decode(line) for line in whole if line]
