"""Files attached to a mail: what is accepted, and how their names and types are written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, TypeAlias
from urllib.parse import quote

from homing.content.characters import check_label, check_line, require_text
from homing.content.limits import Limits, too_large
from homing.content.nested_messages import check_message
from homing.domain.errors import InvalidRequest
from homing.domain.message import Attachment

Disposition: TypeAlias = Literal["attachment", "inline"]

MAX_TYPE_CHARS = 255
MAX_CONTENT_ID_CHARS = 200
_SEGMENT_CHARS = 54

# The top-level types of IANA; `multipart` is ours to build.
_TOP_TYPES = frozenset(
    (
        "application",
        "audio",
        "chemical",
        "font",
        "haptics",
        "image",
        "message",
        "model",
        "text",
        "video",
    )
)
_WORD = r"[A-Za-z0-9!#$&^_.+-]+"
_TYPE = re.compile(rf"({_WORD})/({_WORD})")
_PARAMETER = re.compile(rf' *; *({_WORD}) *= *({_WORD}|"[ !#-\[\]-~]*")')
# They would contradict what the writer says itself.
_OURS = frozenset(("boundary", "name"))
_PLAIN_NAME = re.compile(r"[ !#-\[\]-~]+")
# Stands in HTML as cid:… without any escape.
_CONTENT_ID = re.compile(r"[A-Za-z0-9._+-]+(?:@[A-Za-z0-9._-]+)?")


def check_attachments(given: Sequence[Attachment], limits: Limits) -> tuple[Attachment, ...]:
    """The files with names and types in their normal form. Contents are never unpacked."""
    if len(given) > limits.attachments:
        raise too_large("attachments", len(given), limits.attachments, "files")
    checked = tuple(_check(item, f"attachments[{i}]", limits) for i, item in enumerate(given))
    ids = [attachment.content_id for attachment in checked]
    for index, content_id in enumerate(ids):
        if content_id is not None and content_id in ids[:index]:
            raise InvalidRequest(f"attachments[{index}].content_id", "is given twice")
    size = sum(len(attachment.content) for attachment in checked)
    if size > limits.attachments_bytes:
        raise too_large("attachments", size, limits.attachments_bytes, "bytes")
    return checked


def _check(given: object, field: str, limits: Limits) -> Attachment:
    if not isinstance(given, Attachment):
        raise InvalidRequest(field, f"must be an Attachment, not {type(given).__name__}")
    if not isinstance(given.content, bytes):
        raise InvalidRequest(f"{field}.content", "must be bytes")
    content_type = check_content_type(given.content_type, f"{field}.content_type")
    if content_type.startswith("message/"):
        check_message(given.content, f"{field}.content", limits)
    name = check_filename(given.filename, f"{field}.filename", limits)
    content_id = given.content_id
    if content_id is not None:
        content_id = check_content_id(content_id, f"{field}.content_id")
        if content_type.startswith("message/"):
            raise InvalidRequest(f"{field}.content_id", "does not go with a message")
    return Attachment(name, given.content, content_type, content_id)


def check_content_id(content_id: str, field: str) -> str:
    """The id by which HTML shows the file: `cid:` and this."""
    text = require_text(content_id, field)
    if len(text) > MAX_CONTENT_ID_CHARS:
        raise too_large(field, len(text), MAX_CONTENT_ID_CHARS, "characters")
    if not _CONTENT_ID.fullmatch(text):
        raise InvalidRequest(field, "is not an id such as logo or logo@example.org")
    return text


def check_filename(filename: str, field: str, limits: Limits) -> str:
    """A plain name, without a path and without tricks of direction."""
    name = require_text(filename, field)
    if len(name) > limits.filename_bytes:
        raise too_large(field, len(name), limits.filename_bytes, "bytes")
    check_label(name, field)
    name = unicodedata.normalize("NFC", name)
    if name.strip(" .") == "" or name != name.strip(" "):
        raise InvalidRequest(field, "is not a file name")
    if "/" in name or "\\" in name:
        raise InvalidRequest(field, "may not contain a path")
    if (size := len(name.encode())) > limits.filename_bytes:
        raise too_large(field, size, limits.filename_bytes, "bytes")
    return name


def check_content_type(content_type: str, field: str) -> str:
    """`type/subtype` in lower case, then its parameters as given."""
    text = require_text(content_type, field)
    if len(text) > MAX_TYPE_CHARS:
        raise too_large(field, len(text), MAX_TYPE_CHARS, "characters")
    check_line(text, field)
    words = split_content_type(text)
    if words is None:
        raise InvalidRequest(field, "is not a content type such as application/pdf")
    top, _, sub = words[0].partition("/")
    if top not in _TOP_TYPES:
        raise InvalidRequest(field, f"may not be of type {top}")
    if top == "message" and sub != "rfc822":
        raise InvalidRequest(field, "may be message/rfc822, but no other message type")
    if any(word.partition("=")[0] in _OURS for word in words[1:]):
        raise InvalidRequest(field, "may not set the parameter boundary or name")
    return "; ".join(words)


def split_content_type(text: str) -> list[str] | None:
    """The type and each parameter, or None when it is not one."""
    match = _TYPE.match(text.strip(" "))
    if match is None:
        return None
    words, rest = [match.group().lower()], text.strip(" ")[match.end() :]
    while rest:
        parameter = _PARAMETER.match(rest)
        if parameter is None:
            return None
        words.append(f"{parameter.group(1).lower()}={parameter.group(2)}")
        rest = rest[parameter.end() :]
    return words


def type_line(content_type: str) -> str:
    words = split_content_type(content_type)
    if words is None:
        raise InvalidRequest("attachments.content_type", "is not a content type")
    line = "Content-Type: " + "; ".join(words)
    return line if len(line) <= 78 else "Content-Type: " + ";\r\n ".join(words)


def content_id_line(content_id: str) -> str:
    return f"Content-ID: <{check_content_id(content_id, 'attachments.content_id')}>"


def disposition_line(filename: str, disposition: Disposition = "attachment") -> str:
    """RFC 2183, with RFC 2231 for names that are not plain ASCII."""
    check_line(filename, "attachments.filename")
    if _PLAIN_NAME.fullmatch(filename) and "=?" not in filename:
        break_ = " " if len(filename) <= 40 else "\r\n "
        return f'Content-Disposition: {disposition};{break_}filename="{filename}"'
    encoded = "utf-8''" + quote(filename, safe="!#$&+-.^_~")
    segments = _segments(encoded)
    if len(segments) == 1:
        parameters = [f"filename*={encoded}"]
    else:
        parameters = [f"filename*{i}*={segment}" for i, segment in enumerate(segments)]
    return ";\r\n ".join((f"Content-Disposition: {disposition}", *parameters))


def _segments(encoded: str) -> list[str]:
    """Pieces that fit a line; an escape such as %C3 is not cut."""
    return re.findall(rf"(?:%[0-9A-F]{{2}}|[^%]){{1,{_SEGMENT_CHARS // 3}}}", encoded)
