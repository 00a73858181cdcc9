"""Writes the bytes of a mail: the same input gives the same bytes, on every attempt.

A writer of our own, because the standard library's takes a millisecond a message. Tests prove
that the library reads its output as it reads what it would have built itself.

The output is ASCII unless an address in it needs SMTPUTF8; `bcc` is never written.
"""

from __future__ import annotations

import hashlib
import io
import re
import time
from functools import lru_cache
from typing import NamedTuple

from homing.content.attachments import (
    Disposition,
    content_id_line,
    disposition_line,
    type_line,
)
from homing.content.bodies import Encoding, crlf_lines, encode_text, is_7bit, write_base64
from homing.content.header_lines import address_line, text_line
from homing.content.headers import MESSAGE_ID, header_line
from homing.domain.errors import InvalidRequest
from homing.domain.message import Attachment, Email, Invitation

_MESSAGE_ID = re.compile(r"<[!-;=?A-~]{1,400}@[!-;=?-~]{1,400}>")
_IS_ID = re.compile(f"{MESSAGE_ID}:").match
_METHOD = re.compile(r"[A-Z]{1,20}")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ICS_NAME = "invite.ics"


class _Leaf(NamedTuple):
    """A part with its body as it is written; `raw` is still to be encoded as base64."""

    head: str
    body: str = ""
    raw: bytes | None = None


class _Multi(NamedTuple):
    subtype: str
    parts: tuple[_Part, ...]


_Part = _Leaf | _Multi


def build(email: Email, *, message_id: str, date_ms: int, sender: str) -> bytes:
    """The message as it goes after DATA, lines ended with CRLF, not yet dot-stuffed.

    `sender` is the From that the route allows; `email.sender` is the caller's wish and not read
    here. `message_id` is written unless the e-mail has one of its own.
    The e-mail must have passed `validate_email`. One that has not is refused, never written with
    another meaning.
    """
    if email.template_id is not None:
        raise InvalidRequest("template_id", "must be rendered before the mail is written")
    head = _head(email, message_id, date_ms, sender)
    if email.html is None and not email.attachments and email.invitation is None:
        encoding, body = encode_text(email.text)
        return f"{head}{_TEXT_HEADS['plain', encoding]}\r\n{body}".encode()
    tree = _tree(email)
    # Its buffer is handed out without a copy: a large file is held once in its encoded form.
    out = io.BytesIO()
    out.write(head.encode())
    _write(tree, _stem(message_id, tree), out)
    return out.getvalue()


def reissue(data: bytes, *, message_id: str, date_ms: int) -> bytes:
    """The same message, as `build` has written it, under another Message-ID and Date."""
    head, blank, body = data.partition(b"\r\n\r\n")
    own = {b"date": _date_line(date_ms // 1000), b"message-id": f"Message-ID: {message_id}"}
    lines = [
        own.get(line.partition(b":")[0].lower(), "").encode() or line
        for line in head.split(b"\r\n")
    ]
    return b"\r\n".join(lines) + blank + body


def _head(email: Email, message_id: str, date_ms: int, sender: str) -> str:
    if not _MESSAGE_ID.fullmatch(message_id):
        raise InvalidRequest("message_id", "is not an id in angle brackets")
    lines = [_from_line(sender)]
    if email.to:
        lines.append(address_line("To", email.to, "to"))
    elif not email.cc:
        # RFC 5322 allows no header at all here; spam filters hold that against a mail.
        lines.append("To: undisclosed-recipients:;")
    if email.cc:
        lines.append(address_line("Cc", email.cc, "cc"))
    if email.reply_to:
        lines.append(address_line("Reply-To", email.reply_to, "reply_to"))
    lines.append(text_line("Subject", email.subject, "subject"))
    lines.append(_date_line(date_ms // 1000))
    own = [f"{MESSAGE_ID}: {message_id}"]
    if email.headers:
        given = [header_line(name, value) for name, value in email.headers.items()]
        own = given if any(_IS_ID(line) for line in given) else own + given
    lines += own
    lines.append("MIME-Version: 1.0\r\n")
    return "\r\n".join(lines)


@lru_cache(maxsize=64)
def _from_line(sender: str) -> str:
    return address_line("From", (sender,), "sender")


@lru_cache(maxsize=16)
def _date_line(date_s: int) -> str:
    at = time.gmtime(date_s)
    day = f"{_DAYS[at.tm_wday]}, {at.tm_mday:02} {_MONTHS[at.tm_mon - 1]} {at.tm_year:04}"
    return f"Date: {day} {at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} +0000"


def _text_head(kind: str, encoding: Encoding) -> str:
    return (
        f'Content-Type: text/{kind}; charset="utf-8"\r\nContent-Transfer-Encoding: {encoding}\r\n'
    )


_ENCODINGS: tuple[Encoding, ...] = ("7bit", "quoted-printable", "base64")
_TEXT_HEADS = {
    (kind, encoding): _text_head(kind, encoding)
    for kind in ("plain", "html")
    for encoding in _ENCODINGS
}


def _text(kind: str, text: str) -> _Leaf:
    encoding, body = encode_text(text)
    return _Leaf(_TEXT_HEADS[kind, encoding], body)


def _tree(email: Email) -> _Part:
    """What a reader shows comes first, as alternatives; what it stores comes after."""
    shown: list[_Part] = []
    stored: list[_Part] = []
    inline = [file for file in email.attachments if file.content_id and email.html is not None]
    if email.text or email.html is None:
        shown.append(_text("plain", email.text))
    if email.html is not None:
        html = _text("html", email.html)
        files = [_attached(file, "inline") for file in inline]
        shown.append(_Multi("related", (html, *files)) if files else html)
    if email.invitation is not None:
        encoding, body = encode_text(email.invitation.ics)
        shown.append(_calendar(email.invitation, encoding, body))
        stored.append(_calendar_file(encoding, body))
    stored += [_attached(file) for file in email.attachments if file not in inline]
    first = shown[0] if len(shown) == 1 else _Multi("alternative", tuple(shown))
    return _Multi("mixed", (first, *stored)) if stored else first


def _calendar(invitation: Invitation, encoding: Encoding, body: str) -> _Leaf:
    """Mail programs take the alternative for the invitation itself; some want the file as well."""
    if not _METHOD.fullmatch(invitation.method):
        raise InvalidRequest("invitation.method", "is not an iTIP method")
    head = f'Content-Type: text/calendar; charset="utf-8"; method={invitation.method}\r\n'
    return _Leaf(f"{head}Content-Transfer-Encoding: {encoding}\r\n", body)


def _calendar_file(encoding: Encoding, body: str) -> _Leaf:
    head = f"{type_line('application/ics')}\r\nContent-Transfer-Encoding: {encoding}\r\n"
    return _Leaf(f"{head}{disposition_line(_ICS_NAME)}\r\n", body)


def _attached(file: Attachment, disposition: Disposition = "attachment") -> _Leaf:
    rest = f"{disposition_line(file.filename, disposition)}\r\n"
    if file.content_id:
        rest += f"{content_id_line(file.content_id)}\r\n"
    content_type = file.content_type
    if content_type.lower().startswith("message/"):
        lines = crlf_lines(file.content)
        if is_7bit(lines):
            head = f"{type_line(content_type)}\r\nContent-Transfer-Encoding: 7bit\r\n"
            return _Leaf(head + rest, lines.decode("ascii"))
        # A part of this type may not be encoded (RFC 2046, 5.2.1), and 8 bits need a server that
        # takes them: as a file it arrives byte for byte everywhere.
        content_type = "application/octet-stream"
    head = f"{type_line(content_type)}\r\nContent-Transfer-Encoding: base64\r\n"
    return _Leaf(head + rest, raw=file.content)


def _stem(message_id: str, tree: _Part) -> str:
    """What all boundaries begin with: fixed by the id, and found in no part of the message."""
    bodies = _bodies(tree)
    salt = 0
    while True:
        stem = "=_" + hashlib.sha256(f"{message_id}:{salt}".encode()).hexdigest()[:32]
        if not any(stem in body for body in bodies):
            return stem
        salt += 1


def _bodies(part: _Part) -> list[str]:
    if isinstance(part, _Leaf):
        return [part.body]
    return [body for child in part.parts for body in _bodies(child)]


def _write(part: _Part, stem: str, out: io.BytesIO) -> None:
    if isinstance(part, _Leaf):
        out.write(f"{part.head}\r\n{part.body}".encode())
        if part.raw is not None:
            write_base64(part.raw, out)
        return
    boundary = f"{stem}.{part.subtype}"
    # RFC 2387 wants the type of what is shown first.
    root = ' type="text/html";' if part.subtype == "related" else ""
    head = f'Content-Type: multipart/{part.subtype};{root}\r\n boundary="{boundary}"\r\n'
    out.write(f"{head}\r\n".encode())
    for child in part.parts:
        out.write(f"--{boundary}\r\n".encode())
        _write(child, stem, out)
        out.write(b"\r\n")
    out.write(f"--{boundary}--\r\n".encode())
