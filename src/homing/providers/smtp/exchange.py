"""One transaction: what is said about a message to some recipients, and what was answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from homing.providers.smtp.replies import Reply

Phase: TypeAlias = Literal["connect", "tls", "auth", "mail", "rcpt", "data", "dot"]
Cause: TypeAlias = Literal["timeout", "cut", "garbled"]
# `drain`: our content is still being sent; `void`: the dot that ends a message without recipients.
Awaiting: TypeAlias = Literal["mail", "rcpt", "data", "drain", "dot", "void", "rset"]


class Exchange:
    """MAIL, one RCPT for each recipient, DATA, and the content, with the replies so far."""

    __slots__ = (
        "accepted",
        "awaiting",
        "commands",
        "content",
        "dot_out",
        "lost",
        "replies",
        "withdrawn",
    )

    def __init__(self, commands: Sequence[bytes], content: bytes) -> None:
        self.commands = commands
        self.content = content
        self.replies: list[Reply] = []
        self.awaiting: Awaiting = "mail"
        # Of the sender and the recipients, how many were accepted.
        self.accepted = 0
        # The server may have accepted it, whatever is answered.
        self.dot_out = False
        self.withdrawn = False
        self.lost: Cause | None = None

    @property
    def recipient_replies(self) -> list[Reply]:
        return self.replies[1 : len(self.commands) - 1]

    @property
    def deliverable(self) -> bool:
        """The sender and at least one recipient were accepted."""
        return self.accepted > 1 and self.replies[0].kind == 2

    @property
    def all_accepted(self) -> bool:
        return self.accepted == len(self.commands) - 1
