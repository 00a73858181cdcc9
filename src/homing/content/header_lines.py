"""Writes header lines: folded at 78 characters where a space allows it, never above 998."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from homing.content import encoded_words
from homing.content.addresses import Address, is_plain, parse, quoted
from homing.content.characters import check_line
from homing.domain.errors import InvalidRequest

FOLD_CHARS = 78
MAX_LINE_CHARS = 998

_WORDS = re.compile(r" *[^ ]+")
# What some reader takes for an encoded word, however sloppy it is.
_ENCODED_WORD = re.compile(r"=\?[^?]*\?[bq]\?.*?\?=", re.IGNORECASE)
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~\-]+)*")


def text_line(name: str, value: str, field: str) -> str:
    """A header of free text; whatever a reader could misread goes out as encoded words."""
    decodable = "=?" in value and _ENCODED_WORD.search(value)
    if value.isascii() and value.isprintable() and not decodable:
        if len(name) + 2 + len(value) <= FOLD_CHARS and value.strip(" ") == value:
            return f"{name}: {value}"
        if value.strip(" ") == value:
            folded = fold(name, _WORDS.findall(f" {value}"))
            if max(map(len, folded.split("\r\n"))) <= MAX_LINE_CHARS:
                return folded
    check_line(value, field)
    words = encoded_words.encode(value, FOLD_CHARS - 2 - len(name) - 2)
    return fold(name, [f" {word}" for word in words])


def structured_line(name: str, value: str, field: str) -> str:
    """A header that programs read: folded at its spaces, its words as they are."""
    plain = value.isascii() and value.isprintable() and value.strip(" ") == value
    if plain and value and len(name) + 2 + len(value) <= FOLD_CHARS:
        return f"{name}: {value}"
    check_line(value, field)
    words = _WORDS.findall(f" {value.strip(' ')}")
    line = fold(name, words)
    if not value.isascii() or not words or max(map(len, line.split("\r\n"))) > MAX_LINE_CHARS:
        raise InvalidRequest(field, "cannot be written as it is")
    return line


def address_line(name: str, addresses: Sequence[str], field: str) -> str:
    """An address header. Only what `parse` accepts gets into it."""
    if len(addresses) == 1 and is_plain(addresses[0]) and len(name) + len(addresses[0]) < 76:
        return f"{name}: {addresses[0]}"
    if not addresses:
        raise InvalidRequest(field, "is empty: give an address")
    words: list[str] = []
    for index, address in enumerate(addresses):
        words += _words_of(parse(address, f"{field}[{index}]"), name)
        words[-1] += ","
    words[-1] = words[-1][:-1]
    return fold(name, [f" {word}" for word in words])


def fold(name: str, words: Iterable[str]) -> str:
    """Each word begins with its space; a line break goes before the space, as RFC 5322 wants."""
    lines: list[str] = []
    line = f"{name}:"
    empty = True
    for word in words:
        if not empty and len(line) + len(word) > FOLD_CHARS:
            lines.append(line)
            line = ""
        line += word
        empty = False
    return "\r\n".join((*lines, line))


def _words_of(address: Address, header: str) -> list[str]:
    if not address.name:
        return [address.spec]
    spec = f"<{address.spec}>"
    if not address.name.isascii() or "=?" in address.name:
        return [*encoded_words.encode(address.name, 74 - len(header)), spec]
    if _ATOMS.fullmatch(address.name):
        return [*address.name.split(" "), spec]
    return [quoted(address.name), spec]
