"""Turns text and bytes into lines that every mail server carries unchanged.

Only 7bit, quoted-printable and base64 are used: the bytes are frozen before the server is known,
so they may not depend on 8BITMIME. Every line ends with CRLF and has at most 998 characters.
"""

from __future__ import annotations

import binascii
from typing import BinaryIO, Literal, TypeAlias

from homing.content.header_lines import MAX_LINE_CHARS
from homing.domain.errors import InvalidRequest

Encoding: TypeAlias = Literal["7bit", "quoted-printable", "base64"]

# Legal in a 7bit body; any other control character is encoded.
_PLAIN_BYTES = bytes([0x09, 0x0A, 0x0D, *range(0x20, 0x7F)])
_CONTROL_BYTES = bytes(set(range(0x80)) - set(_PLAIN_BYTES))
_ENCODED_BYTES = bytes([*_CONTROL_BYTES, ord("="), *range(0x80, 0x100)])
_BASE64_LINE_CHARS = 76
# A multiple of the bytes in such a line, so that blocks can follow one another.
_BLOCK_BYTES = 57 * 1024


def encode_text(text: str) -> tuple[Encoding, str]:
    """The encoding chosen and the body, which ends with CRLF and has no bare CR or LF."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text[-1:] != "\n":
        text += "\n"
    text = text.replace("\n", "\r\n")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("text", "holds a lone surrogate, which is not a character") from None
    if is_7bit(data):
        return "7bit", text
    encoded_bytes = len(data) - len(data.translate(None, _ENCODED_BYTES))
    if encoded_bytes * 6 > len(data):
        return "base64", base64_lines(data).decode("ascii")
    return "quoted-printable", binascii.b2a_qp(data).decode("ascii")


def is_7bit(data: bytes) -> bool:
    """Whether these lines may travel as they are: ASCII, no odd controls, none too long."""
    if not data.isascii() or len(data.translate(None, _CONTROL_BYTES)) != len(data):
        return False
    return len(data) <= MAX_LINE_CHARS or max(map(len, data.split(b"\n"))) <= MAX_LINE_CHARS + 1


def crlf_lines(data: bytes) -> bytes:
    """Every line ended with CRLF, whatever ended it before."""
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not lines.endswith(b"\n"):
        lines += b"\n"
    return lines.replace(b"\n", b"\r\n")


def base64_lines(data: bytes | memoryview) -> bytes:
    """Lines of 76 characters, each ended with CRLF."""
    encoded = binascii.b2a_base64(data, newline=False)
    lines = [
        encoded[at : at + _BASE64_LINE_CHARS] for at in range(0, len(encoded), _BASE64_LINE_CHARS)
    ]
    lines.append(b"")
    return b"\r\n".join(lines)


def write_base64(data: bytes, out: BinaryIO) -> None:
    """As `base64_lines`, block by block: a big file is never held twice in its encoded form."""
    view = memoryview(data)
    starts = range(0, len(data), _BLOCK_BYTES)
    out.writelines(base64_lines(view[start : start + _BLOCK_BYTES]) for start in starts)
