"""What a request asks to send: MIME in base64, or Graph's own JSON."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import getaddresses
from typing import Any

import msgspec
from msgspec import Struct

BAD_REQUEST = 400


class GraphError(Exception):
    """An answer in Graph's own form."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def fields(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message}}


class Mail(Struct, frozen=True):
    recipients: tuple[str, ...]
    subject: str
    body: str
    html: str | None
    message_id: str
    sha256: str


def mail_from(content_type: str, body: bytes, *, wrapped: bool) -> Mail:
    """`wrapped`: in JSON, sendMail takes the message in the field `message`."""
    if content_type.partition(";")[0].strip().lower() == "text/plain":
        return _from_mime(body)
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise GraphError(BAD_REQUEST, "BadRequest", "the body is not JSON") from None
    message = fields.get("message") if wrapped and isinstance(fields, dict) else fields
    if not isinstance(message, dict):
        raise GraphError(BAD_REQUEST, "ErrorInvalidRequest", "there is no message in the body")
    return _from_json(message, body)


def check_recipients(mail: Mail) -> None:
    if not mail.recipients:
        raise GraphError(BAD_REQUEST, "ErrorInvalidRecipients", "the mail has no recipient")


def _from_mime(body: bytes) -> Mail:
    try:
        data = base64.b64decode(body, validate=True)
    except binascii.Error:
        code = "ErrorMimeContentInvalidBase64String"
        raise GraphError(BAD_REQUEST, code, "the MIME content is not base64") from None
    message = message_from_bytes(data, policy=policy.default)
    lines = [str(line) for name in ("to", "cc", "bcc") for line in message.get_all(name, [])]
    return Mail(
        recipients=tuple(address for _, address in getaddresses(lines) if address),
        subject=str(message["subject"] or ""),
        body=_part(message, "plain") or "",
        html=_part(message, "html"),
        message_id=str(message["message-id"] or "").strip(),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def _part(message: EmailMessage, kind: str) -> str | None:
    part = message.get_body((kind,))
    return None if part is None else str(part.get_content())


def _from_json(message: dict[str, Any], body: bytes) -> Mail:
    content = message.get("body") or {}
    text, is_html = str(content.get("content", "")), str(content.get("contentType", "")).lower()
    lists = ("toRecipients", "ccRecipients", "bccRecipients")
    return Mail(
        recipients=tuple(_addresses([each for name in lists for each in message.get(name) or ()])),
        subject=str(message.get("subject", "")),
        body=text,
        html=text if is_html == "html" else None,
        message_id=str(message.get("internetMessageId", "")),
        sha256=hashlib.sha256(body).hexdigest(),
    )


def _addresses(recipients: Sequence[Any]) -> list[str]:
    try:
        return [str(each["emailAddress"]["address"]) for each in recipients]
    except (KeyError, TypeError):
        code = "ErrorInvalidRecipients"
        raise GraphError(BAD_REQUEST, code, "a recipient has no emailAddress.address") from None
