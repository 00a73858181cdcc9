"""The steps of opening a session, which the generators yield and the connection carries out."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from homing.providers.smtp.exchange import Phase
from homing.providers.smtp.replies import Reply


class Say(Struct, frozen=True):
    """Write `line` (nothing, when empty) and wait for one reply."""

    phase: Phase
    line: bytes = b""


class StartTls(Struct, frozen=True):
    """Start TLS on this connection, then go on."""


class Refused(Exception):
    """The session cannot be used: by a reply, or because something is missing or untrusted."""

    def __init__(
        self, phase: Phase, heard: Reply | Literal["missing", "untrusted"], detail: str = ""
    ) -> None:
        super().__init__(phase)
        self.phase = phase
        self.heard = heard
        self.detail = detail
