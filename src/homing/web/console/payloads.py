"""What a delivery carries, by its kind: the parts of a mail, or data to be unfolded."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any

import msgspec
from msgspec import Struct

from homing.domain.delivery import FROZEN, FROZEN_ORIGINAL, Content
from homing.domain.message import Attachment, Email, Invitation, decode_message
from homing.web.console.invitations import Meeting, meeting_of

# What a page shows of data, and of a mail's source: it must stay light.
MAX_NODES = 400
MAX_SHOWN_CHARS = 20_000
MAX_CHILDREN_OPEN = 12
# Linear in time: no tag is looked through beyond the beginning of the next.
_LINK = re.compile(r"""(?i)<a\s[^<>]*?href\s*+=\s*+["']([^"']{1,500})""")
_IMAGE = re.compile(r"""(?i)<img\s[^<>]*?src\s*+=\s*+["']([^"']{1,500})""")
# Before a policy refuses what these would load, a browser may have connected to its host.
_LOADING = re.compile(r"(?i)<(/?)(?=(?:iframe|frame|frameset|object|embed|link|base|portal)\b)")
_PLAIN_LINK = re.compile(r"https?://[^\s<>\"')]{1,500}")


class Node(Struct, frozen=True):
    """A value of JSON: a text, or a name with what is inside of it."""

    name: str
    text: str = ""
    kind: str = "text"
    items: tuple[Node, ...] = ()
    more: int = 0

    @property
    def is_open(self) -> bool:
        return len(self.items) <= MAX_CHILDREN_OPEN


class MailParts(Struct, frozen=True, kw_only=True):
    """A mail as its reader would see it, and as it was sent."""

    subject: str
    sender: str | None
    to: tuple[str, ...]
    cc: tuple[str, ...]
    bcc: tuple[str, ...]
    reply_to: tuple[str, ...]
    text: str
    html: str | None
    attachments: tuple[Attachment, ...]
    invitation: Invitation | None
    meeting: Meeting | None
    headers: tuple[tuple[str, str], ...]
    source: str
    links: tuple[str, ...] = ()
    images: tuple[str, ...] = ()


class Carried(Struct, frozen=True, kw_only=True):
    """All that is kept of what a delivery carries."""

    mail: MailParts | None = None
    data: Node | None = None
    results: tuple[Node, ...] = ()
    earlier: tuple[Node, ...] = ()
    is_gone: bool = False
    variables: Node | None = None


def carried(content: Content | None) -> Carried:
    if content is None or not content.payload:
        return Carried(is_gone=True)
    results: list[Node] = []
    earlier: list[Node] = []
    for name, value in content.results.items():
        if name in (FROZEN, FROZEN_ORIGINAL):
            continue
        known = earlier if name.startswith("payload.") else results
        known.append(folded(name, _read(value)))
    email = email_of(content)
    if email is None:
        shown = _read(content.payload)
        data = shown.get("data", shown) if isinstance(shown, dict) else shown
        return Carried(data=folded("data", data), results=tuple(results), earlier=tuple(earlier))
    return Carried(
        mail=mail_parts(email, content),
        results=tuple(results),
        earlier=tuple(earlier),
        variables=folded("variables", dict(email.variables)) if email.variables else None,
    )


def email_of(content: Content | None) -> Email | None:
    """The mail of a payload, if it is one."""
    if content is None or not content.payload:
        return None
    try:
        message = decode_message(content.payload)
    except msgspec.DecodeError:
        return None
    return message if isinstance(message, Email) else None


def mail_parts(email: Email, content: Content, *, whole: bool = True) -> MailParts:
    """Of a template, what was rendered for sending. Unless `whole`, the headers of other mails
    are not read: that takes milliseconds."""
    raw = content.results.get(FROZEN) or content.results.get(FROZEN_ORIGINAL) or b""
    if not whole and email.template_id is None:
        raw = b""
    text, html, subject = email.text, email.html, email.subject
    headers: tuple[tuple[str, str], ...] = tuple(email.headers.items())
    if raw:
        parsed = BytesParser(policy=policy.default).parsebytes(_head(raw))
        headers = tuple((name, str(value)) for name, value in parsed.items())
        if email.template_id is not None:
            message = BytesParser(policy=policy.default).parsebytes(raw)
            text, html = _body(message, "plain") or "", _body(message, "html")
            subject = str(parsed["subject"] or "")
    return MailParts(
        subject=subject,
        sender=email.sender or _header(headers, "From"),
        to=tuple(email.to),
        cc=tuple(email.cc),
        bcc=tuple(email.bcc),
        reply_to=tuple(email.reply_to),
        text=_text(text),
        html=html,
        attachments=tuple(email.attachments),
        invitation=email.invitation,
        meeting=None if email.invitation is None else meeting_of(email.invitation.ics),
        headers=headers,
        source=raw[:MAX_SHOWN_CHARS].decode("utf-8", "replace"),
        links=_found(_LINK, html) or _found(_PLAIN_LINK, text),
        images=_found(_IMAGE, html),
    )


def framed(mail: MailParts) -> str:
    """The HTML with its own images inside of it: the frame may ask nothing of anyone."""
    html = mail.html or ""
    for each in mail.attachments:
        if each.content_id and each.content_type.startswith("image/"):
            inside = base64.b64encode(each.content).decode("ascii")
            html = html.replace(
                f"cid:{each.content_id}", f"data:{each.content_type};base64,{inside}"
            )
    return _LOADING.sub(r"<\1x-", html)


def folded(name: str, value: Any) -> Node:
    left = [MAX_NODES]

    def node(label: str, inner: Any) -> Node:
        left[0] -= 1
        pairs: list[tuple[str, Any]] = []
        if isinstance(inner, Mapping):
            pairs = [(str(each), inside) for each, inside in inner.items()]
        elif isinstance(inner, list):
            pairs = [(str(number), inside) for number, inside in enumerate(inner)]
        if not pairs:
            return Node(label, _text(inner), _kind(inner))
        shown = pairs[: max(left[0], 0)]
        items = tuple(node(each, inside) for each, inside in shown if left[0] > 0)
        kind = "list" if isinstance(inner, list) else "object"
        return Node(label, kind=kind, items=items, more=len(pairs) - len(items))

    return node(name, value)


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    cut = len(text) - MAX_SHOWN_CHARS
    return text if cut <= 0 else f"{text[:MAX_SHOWN_CHARS]}… ({cut:,} more characters)"


def _kind(value: Any) -> str:
    return "text" if isinstance(value, str) else "value"


def _read(value: bytes) -> Any:
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value[:MAX_SHOWN_CHARS].decode("utf-8", "replace")


def _head(raw: bytes) -> bytes:
    return raw.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


def _body(message: EmailMessage, kind: str) -> str | None:
    part = message.get_body((kind,))
    return None if part is None else str(part.get_content())


def _header(headers: tuple[tuple[str, str], ...], wanted: str) -> str | None:
    return next((value for name, value in headers if name.lower() == wanted.lower()), None)


def _found(pattern: re.Pattern[str], text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(pattern.findall(text or "")))[:50]
