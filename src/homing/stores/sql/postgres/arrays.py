"""Columns of values as PostgreSQL arrays, in its binary format.

psycopg turns a list into an array value by value, in Python: five times the work of the statement
that gets it. Here a column is packed whole, and a value that all rows share is packed once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from psycopg import abc, adapt, pq
from psycopg.types.numeric import Int8BinaryDumper

Kind: TypeAlias = Literal["text", "bigint", "bytea"]

_HEADER = struct.Struct("!iiIii")
_LENGTH = struct.Struct("!i")
_BIGINT = struct.Struct("!iq")
_NULL = _LENGTH.pack(-1)
_ELEMENT_OIDS: dict[Kind, int] = {"text": 25, "bigint": 20, "bytea": 17}


class Array(Struct, frozen=True, gc=False):
    """One column of a statement's rows, for any driver."""

    kind: Kind
    values: Sequence[Any]


class Packed:
    """The binary form of an array. Not a kind of bytes: to make one would copy them."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class TextArray(Packed): ...


class BigintArray(Packed): ...


class ByteaArray(Packed): ...


_PACKED: dict[Kind, type[Packed]] = {
    "text": TextArray,
    "bigint": BigintArray,
    "bytea": ByteaArray,
}


def pack(array: Array) -> Packed:
    kind, values = array.kind, array.values
    number = len(values)
    made = _PACKED[kind]
    if not number:
        return made(_HEADER.pack(0, 0, _ELEMENT_OIDS[kind], 0, 0)[:12])
    has_null = None in values
    header = _HEADER.pack(1, has_null, _ELEMENT_OIDS[kind], number, 1)
    first = values[0]
    if values.count(first) == number:
        return made(header + _element(kind, first) * number)
    if has_null:
        return made(b"".join([header, *[_element(kind, value) for value in values]]))
    if kind == "bigint":
        pairs = [part for value in values for part in (8, value)]
        return made(header + struct.pack("!" + "iq" * number, *pairs))
    return made(_joined(header, [v.encode() for v in values] if kind == "text" else values))


def _joined(header: bytes, datas: Sequence[bytes]) -> bytes:
    """Each with its length before it. Ids, digests and often records are all of one length."""
    if len(set(map(len, datas))) == 1:
        return _LENGTH.pack(len(datas[0])).join([header, *datas])
    parts = [part for data in datas for part in (_LENGTH.pack(len(data)), data)]
    return b"".join([header, *parts])


def _element(kind: Kind, value: Any) -> bytes:
    if value is None:
        return _NULL
    if kind == "bigint":
        return _BIGINT.pack(8, value)
    data: bytes = value.encode() if kind == "text" else value
    return _LENGTH.pack(len(data)) + data


class _Dumper(adapt.Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: Any) -> Any:
        return obj.data


class _TextArrayDumper(_Dumper):
    oid = 1009


class _BigintArrayDumper(_Dumper):
    oid = 1016


class _ByteaArrayDumper(_Dumper):
    oid = 1001


def packed(values: Iterable[Any]) -> list[Any]:
    """A statement's parameters, as a driver that was taught takes them."""
    return [pack(value) if type(value) is Array else value for value in values]


def teach(context: abc.AdaptContext) -> None:
    """Let this connection, or this cursor, take packed arrays as parameters.

    All numbers get one type: a statement is prepared for the types of its parameters.
    """
    context.adapters.register_dumper(int, Int8BinaryDumper)
    context.adapters.register_dumper(TextArray, _TextArrayDumper)
    context.adapters.register_dumper(BigintArray, _BigintArrayDumper)
    context.adapters.register_dumper(ByteaArray, _ByteaArrayDumper)
