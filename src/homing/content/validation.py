"""Checks e-mails: a valid one is normalised and can be sent; a refusal names the field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from homing.content import addresses, json_values
from homing.content.attachments import check_attachments
from homing.content.characters import check_body, check_line, require_text
from homing.content.headers import check_headers
from homing.content.ics import check_invitation
from homing.content.limits import DEFAULT, Limits, too_large
from homing.content.locales import DEFAULT_LOCALE, canonical_locale
from homing.domain.errors import InvalidRequest
from homing.domain.message import Attachment, Email

MAX_TEMPLATE_ID_CHARS = 100
_TEMPLATE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def validate_email(email: Email, limits: Limits = DEFAULT) -> Email:
    """The e-mail in its normal form, without anything that the caller can still change.

    Addresses keep their display names; `envelope_of` gives the bare ones. InvalidRequest names
    the first field that is wrong.
    """
    to = _addresses(email.to, "to", limits)
    cc = _addresses(email.cc, "cc", limits)
    bcc = _addresses(email.bcc, "bcc", limits)
    reply_to = _addresses(email.reply_to, "reply_to", limits)
    if not (to or cc or bcc):
        raise InvalidRequest("to", "is empty: give an address in to, cc or bcc")
    count = len(to) + len(cc) + len(bcc)
    if count > limits.recipients:
        raise too_large("to", count, limits.recipients, "recipients")
    if len(reply_to) > limits.reply_to:
        raise too_large("reply_to", len(reply_to), limits.reply_to, "addresses")
    locale: str | None = None
    variables: dict[str, json_values.Json] = {}
    if email.template_id is None:
        _check_written(email, limits)
    else:
        locale, variables = _template(email, limits)
    return replace(
        email,
        to=to,
        cc=cc,
        bcc=bcc,
        reply_to=reply_to,
        html=email.html or None,
        locale=locale,
        variables=variables,
        sender=None if email.sender is None else str(addresses.parse(email.sender, "from")),
        attachments=_attachments(email, limits) if email.attachments else (),
        invitation=email.invitation and check_invitation(email.invitation, limits),
        headers=check_headers(email.headers, limits) if email.headers else {},
        metadata=_metadata(email.metadata, limits) if email.metadata else {},
    )


def envelope_of(email: Email) -> tuple[str, ...]:
    """The bare addresses that get the mail, each once, in order: exactly as they are sent."""
    given = (*email.to, *email.cc, *email.bcc)
    specs = [a if addresses.is_plain(a) else addresses.parse(a).spec for a in given]
    return tuple(dict.fromkeys(specs))


def check_subject(subject: object, field: str, limits: Limits) -> str:
    """The subject; InvalidRequest if it is too long or more than one line."""
    text = require_text(subject, field)
    if len(text) > limits.subject_chars:
        raise too_large(field, len(text), limits.subject_chars, "characters")
    check_line(text, field)
    return text


def _addresses(given: Sequence[str], field: str, limits: Limits) -> tuple[str, ...]:
    if not given:
        return ()
    # Counted before they are parsed: the work for a hostile list is bounded too.
    if len(given) > limits.recipients:
        raise too_large(field, len(given), limits.recipients, "addresses")
    return tuple(
        [
            address
            if addresses.is_plain(address)
            else str(addresses.parse(address, f"{field}[{index}]"))
            for index, address in enumerate(given)
        ]
    )


def _check_written(email: Email, limits: Limits) -> None:
    if email.locale is not None:
        raise InvalidRequest("locale", "goes with a template_id only")
    if email.variables:
        raise InvalidRequest("variables", "go with a template_id only")
    check_subject(email.subject, "subject", limits)
    text = require_text(email.text, "text")
    html = None if email.html is None else require_text(email.html, "html")
    if not text and not html:
        raise InvalidRequest("text", "is missing: give text, html or a template_id")
    check_size(text, html, limits)


def check_size(text: str, html: str | None, limits: Limits) -> None:
    """Both bodies together are within the limit and can be encoded."""
    size = 0
    for field, body in (("text", text), ("html", html)):
        if not body:
            continue
        if len(body) > limits.body_bytes:
            raise too_large(field, len(body), limits.body_bytes, "bytes")
        check_body(body, field)
        size += len(body) if body.isascii() else len(body.encode())
        if size > limits.body_bytes:
            raise too_large(field, size, limits.body_bytes, "bytes")


def _template(email: Email, limits: Limits) -> tuple[str, dict[str, json_values.Json]]:
    """Its locale and its variables, as they are stored."""
    for field in ("subject", "text", "html"):
        if getattr(email, field):
            raise InvalidRequest(field, "is made by the template: give one or the other")
    template_id = require_text(email.template_id, "template_id")
    if len(template_id) > MAX_TEMPLATE_ID_CHARS or not _TEMPLATE_ID.fullmatch(template_id):
        raise InvalidRequest("template_id", "is not a template's name")
    locale = DEFAULT_LOCALE if email.locale is None else canonical_locale(email.locale)
    variables = json_values.copy_object(email.variables, "variables", limits)
    return locale, variables


def _attachments(email: Email, limits: Limits) -> tuple[Attachment, ...]:
    checked = check_attachments(email.attachments, limits)
    if not email.html and email.template_id is None:
        for index, file in enumerate(checked):
            if file.content_id is not None:
                raise InvalidRequest(f"attachments[{index}].content_id", "goes with html only")
    return checked


def _metadata(given: Mapping[str, str], limits: Limits) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise InvalidRequest("metadata", "must be an object of names and values")
    if len(given) > limits.metadata:
        raise too_large("metadata", len(given), limits.metadata, "entries")
    checked: dict[str, str] = {}
    for key, value in given.items():
        name = require_text(key, "metadata")
        for text in (name, require_text(value, f"metadata.{name}")):
            if len(text) > limits.metadata_chars:
                raise too_large("metadata", len(text), limits.metadata_chars, "characters")
            check_body(text, "metadata")
        checked[name] = value
    return checked
