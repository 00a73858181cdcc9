"""The dialogue of an open session, without I/O: bytes come in, bytes and answers go out.

With PIPELINING a whole envelope goes out in one piece, and the next envelope right behind the
final dot of the message before it, so that a message costs one round trip (RFC 2920 allows
content to be the first thing in a group and DATA to be the last).
"""

from __future__ import annotations

from collections import deque

from homing.providers.smtp.exchange import Awaiting, Cause, Exchange
from homing.providers.smtp.replies import Reply, ReplyParser

SERVICE_CLOSING = 421
GO_AHEAD = 354
END_OF_DATA = b".\r\n"
# Above this size the final dot is held back until the content has left, so that a connection that
# breaks before that is certainly "not sent".
HOLD_DOT_ABOVE_BYTES = 64 * 1024


class _Reset:
    """Stands in the queue for the answer to RSET."""

    awaiting: Awaiting = "rset"


_RESET = _Reset()


class Dialogue:
    """Takes exchanges in order, one envelope at a time; gives them back when they are over.

    While there is something in `out`, write `outgoing()`: soon, and before anything more is
    received. Once `closing` is set the connection serves no further
    message; once `broken` is set it must be cut.
    """

    __slots__ = (
        "_dotted",
        "_parser",
        "broken",
        "closing",
        "milestone",
        "out",
        "pipelining",
        "queue",
    )

    def __init__(self, *, pipelining: bool) -> None:
        self.pipelining = pipelining
        self.closing = False
        self.broken: str | None = None
        # Counts up when something else is waited for, so that each answer has a time of its own.
        self.milestone = 0
        self._parser = ReplyParser()
        self.queue: deque[Exchange | _Reset] = deque()
        self.out: list[bytes] = []
        self._dotted: Exchange | None = None

    @property
    def idle(self) -> bool:
        return not self.queue

    @property
    def awaiting(self) -> Awaiting | None:
        """What has to happen next; None while nothing is under way."""
        return self.queue[0].awaiting if self.queue else None

    @property
    def has_room(self) -> bool:
        """Whether another envelope may go out now."""
        if not self.queue:
            return not self.closing
        behind = self.queue[-1].awaiting in _PIPELINED_BEHIND
        return self.pipelining and behind and not self.closing

    def take(self, exchange: Exchange) -> None:
        """Begin with this message. Only when there is room."""
        if not self.queue:
            self.milestone += 1
        self.queue.append(exchange)
        self.out.extend(exchange.commands if self.pipelining else exchange.commands[:1])

    def outgoing(self) -> bytes:
        """What to write now; it counts as written."""
        if self._dotted is not None:
            self._dotted.dot_out, self._dotted = True, None
        out, self.out = b"".join(self.out), []
        return out

    def receive(self, data: bytes) -> list[Exchange]:
        """Take in what the server said; the exchanges that it ended."""
        ended: list[Exchange] = []
        parser, queue = self._parser, self.queue
        for reply in parser.feed(data):
            if self.closing:
                break
            self.milestone += 1
            if not queue:
                self.closing = True  # the server closes, or answers without being asked
            elif self.out:
                # Taken for the answer, it would let a message go out that is already judged.
                self._break("the server answers before it is asked")
            elif reply.code not in _EXPECTED[queue[0].awaiting]:
                self._break(f"{reply.code} answers nothing that was asked")
            else:
                self._answer(queue[0], reply, ended)
        if parser.broken is not None:
            self._break(parser.broken)
        elif not queue and parser.mid_reply:
            self._break("the server sent a reply to no command")  # it could pass for a later answer
        return ended

    def content_left(self) -> None:
        """The content that held its dot back has left: now the dot."""
        head = self.queue[0]
        if isinstance(head, Exchange) and head.awaiting == "drain":
            self.milestone += 1
            self._end_content(head)

    def lose(self, cause: Cause) -> list[Exchange]:
        """The connection is lost: every open exchange ends here."""
        self.closing = True
        lost = [item for item in self.queue if isinstance(item, Exchange)]
        for exchange in lost:
            exchange.lost = cause
        self.queue.clear()
        self.out.clear()
        self._dotted = None
        return lost

    def _answer(self, head: Exchange | _Reset, reply: Reply, ended: list[Exchange]) -> None:
        if isinstance(head, _Reset):
            self.queue.popleft()
            self.closing = reply.kind != 2
            return
        awaiting, replies = head.awaiting, head.replies
        replies.append(reply)
        if reply.code == SERVICE_CLOSING or awaiting == "drain":
            # Going away, or an answer before the content's end: it has given up on it.
            self.closing = True
            self._end(head, ended)
        elif awaiting in _OF_ENVELOPE:
            head.accepted += reply.kind == 2
            head.awaiting = "data" if len(replies) == len(head.commands) - 1 else "rcpt"
            if not self.pipelining:
                self._say_next(head, reply, ended)
        elif awaiting == "data":
            self._answer_data(head, reply, ended)
        else:
            self._end(head, ended)

    def _say_next(self, head: Exchange, reply: Reply, ended: list[Exchange]) -> None:
        answered = len(head.replies)
        sender_refused = answered == 1 and reply.kind != 2
        if sender_refused or (head.awaiting == "data" and not head.deliverable):
            self._reset_after(head, ended)
        else:
            self.out.append(head.commands[answered])

    def _answer_data(self, head: Exchange, reply: Reply, ended: list[Exchange]) -> None:
        if reply.code != GO_AHEAD:
            self._reset_after(head, ended)
        elif head.withdrawn or head.replies[0].kind != 2:
            self._break("354 to a message that is not sent")  # a dot would send an empty one
        elif head.accepted == 1:
            # Pipelined DATA after all recipients were refused: the empty message has no recipient.
            self.out.append(END_OF_DATA)
            head.awaiting = "void"
        elif len(head.content) > HOLD_DOT_ABOVE_BYTES:
            self.out.append(head.content)
            head.awaiting = "drain"
        else:
            self.out.append(head.content)
            self._end_content(head)

    def _end_content(self, head: Exchange) -> None:
        self.out.append(END_OF_DATA)
        self._dotted = head
        head.awaiting = "dot"

    def _reset_after(self, head: Exchange, ended: list[Exchange]) -> None:
        self._end(head, ended)
        self.out.append(b"RSET\r\n")
        self.queue.appendleft(_RESET)

    def _end(self, head: Exchange, ended: list[Exchange]) -> None:
        self.queue.popleft()
        ended.append(head)

    def _break(self, why: str) -> None:
        self.broken = self.broken or why
        self.closing = True


_REFUSALS = frozenset(range(400, 600))
_YES_OR_NO = _REFUSALS | frozenset(range(200, 300))
_EXPECTED: dict[Awaiting, frozenset[int]] = {
    "mail": _YES_OR_NO,
    "rcpt": _YES_OR_NO,
    "data": _REFUSALS | {GO_AHEAD},
    "drain": _YES_OR_NO,
    "dot": _YES_OR_NO,
    "void": _YES_OR_NO,
    "rset": _YES_OR_NO,
}
_OF_ENVELOPE: frozenset[Awaiting] = frozenset({"mail", "rcpt"})
# What another envelope may go out behind, before it is answered.
_PIPELINED_BEHIND: frozenset[Awaiting] = frozenset({"dot", "rset"})
