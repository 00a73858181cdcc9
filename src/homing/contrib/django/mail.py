"""`EMAIL_BACKEND`: submits the mail that the project sends with Django's own functions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.db import connections

from homing.contrib.django.configured import configured_homing, own_database
from homing.domain.errors import HomingError, InvalidRequest
from homing.domain.message import Attachment, Email
from homing.domain.redaction import redact

log = logging.getLogger("homing.django")

KEY_HEADER = "Idempotency-Key"
"""A header with this name is the submission's key, and is not sent."""


class EmailBackend(BaseEmailBackend):  # type: ignore[misc] # Django ships no types
    """Inside `transaction.atomic()` of the store's own database, the mail is part of it."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """How many were accepted; with `fail_silently` the others are logged and left out."""
        accepted = 0
        for message in email_messages:
            if not message.recipients():
                continue
            try:
                email, key = email_of(message)
                configured_homing().sync.submit(email, key=key, within=_open_transaction())
            except HomingError as error:
                if not self.fail_silently:
                    raise
                log.warning("mail_refused detail=%s", redact(str(error)))
            else:
                accepted += 1
        return accepted


def email_of(message: EmailMessage) -> tuple[Email, str | None]:
    """The same message for Homing, and its idempotency key."""
    headers = {name: str(value) for name, value in message.extra_headers.items()}
    key = _take(headers, KEY_HEADER)
    text, html = _bodies(message)
    email = Email(
        to=message.to,
        cc=message.cc,
        bcc=message.bcc,
        reply_to=message.reply_to,
        sender=_take(headers, "From") or message.from_email,
        subject=str(message.subject),
        text=text,
        html=html,
        attachments=[_attachment(item, has_html=html is not None) for item in message.attachments],
        headers=headers,
    )
    return email, key


def _bodies(message: EmailMessage) -> tuple[str, str | None]:
    parts = {f"text/{message.content_subtype}": str(message.body)}
    for alternative in getattr(message, "alternatives", ()):
        content, kind = alternative
        if kind in parts:
            raise InvalidRequest("alternatives", f"there are two bodies of type {kind}")
        parts[kind] = str(content)
    text, html = parts.pop("text/plain", ""), parts.pop("text/html", None)
    if parts:
        raise InvalidRequest("alternatives", f"{min(parts)} is not supported, only text/html is")
    return text, html


def _attachment(item: Any, *, has_html: bool) -> Attachment:
    if hasattr(item, "get_payload"):  # a MIME part that the caller has made
        content = item.get_payload(decode=True)
        if content is None:
            raise InvalidRequest("attachments", "a multipart part cannot be attached")
        content_id = str(item.get("Content-ID", "")).strip().strip("<>")
        shown_as = content_id if content_id and has_html else None  # only HTML can show it
        return Attachment(
            item.get_filename() or "attachment", content, item.get_content_type(), shown_as
        )
    filename, content, kind = item
    if hasattr(content, "as_bytes"):  # a message that is attached to this one
        content = content.as_bytes()
    data = content.encode() if isinstance(content, str) else content
    return Attachment(filename or "attachment", data, kind or "application/octet-stream")


def _take(headers: dict[str, str], name: str) -> str | None:
    found = next((known for known in headers if known.lower() == name.lower()), None)
    return None if found is None else headers.pop(found)


def _open_transaction() -> object | None:
    """On the store's own database: there a write of ours would wait for the caller's."""
    alias = own_database()
    if alias is None:
        return None
    connection = connections[alias]
    return connection if connection.in_atomic_block else None
