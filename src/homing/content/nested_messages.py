"""Limits messages within an attached message: mail scanners open them all.

The file may have 25 MB and is searched in the event loop: in one pass and without copies.
"""

from __future__ import annotations

import re

from homing.content.limits import Limits, too_large

# Each part of a message has one such field.
MAX_TYPE_FIELDS = 10_000
# A line may also end in CR alone: Python's own mail parser reads it so.
_FIELD = re.compile(rb"(?i)content-type(?<![^\r\n]content-type)[ \t]*:")
# A field ends with the first line that no folded line follows.
_FIELD_END = re.compile(rb"\r(?![ \t\n])|\n(?![ \t])")
# Searched in the whole field, because a comment may stand before the type.
_OPENS_MESSAGE = re.compile(rb"(?i)message/|multipart/digest")


def check_message(content: bytes, field: str, limits: Limits) -> None:
    fields, messages, end = 0, 1, 0
    while found := _FIELD.search(content, end):
        fields += 1
        if fields > MAX_TYPE_FIELDS:
            raise too_large(field, fields, MAX_TYPE_FIELDS, "parts")
        ended = _FIELD_END.search(content, found.end())
        end = len(content) if ended is None else ended.end()
        if _OPENS_MESSAGE.search(content, found.end(), end):
            messages += 1
    if messages > limits.nested_messages:
        raise too_large(field, messages, limits.nested_messages, "messages within one another")
