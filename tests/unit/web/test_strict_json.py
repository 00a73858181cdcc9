"""Strict JSON: the quick check agrees with the slow, certain one; each refusal has a name."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct

from homing.web.api.schemas import BatchIn, DeliveryIn
from homing.web.http.problems import BadRequest
from homing.web.http.strict_json import MAX_DEPTH, MAX_WHOLE_NUMBER, check, parse

NAMES = st.sampled_from(["a", "b", ":", "a:", '"', "\\", "\n", "ä", "::"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_WHOLE_NUMBER, MAX_WHOLE_NUMBER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", ":", "a:b:c", '":"', "\\:", "https://example.org/?a=1", "ü:"])
)


class Members(list[tuple[str, Any]]):
    """A JSON object as it is written: names may repeat."""


DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(st.tuples(NAMES, inner), max_size=4).map(Members)
    ),
    max_leaves=12,
)


def write(value: Any, *, ascii_only: bool, blank: str) -> str:
    if isinstance(value, Members):
        members = (
            f"{json.dumps(name, ensure_ascii=ascii_only)}{blank}:{blank}"
            f"{write(item, ascii_only=ascii_only, blank=blank)}"
            for name, item in value
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        items = (write(item, ascii_only=ascii_only, blank=blank) for item in value)
        return "[" + ",".join(items) + "]"
    return json.dumps(value, ensure_ascii=ascii_only)


def repeats_a_name(value: Any) -> bool:
    if isinstance(value, Members):
        names = [name for name, _ in value]
        return len(set(names)) < len(names) or any(repeats_a_name(item) for _, item in value)
    return isinstance(value, list) and any(repeats_a_name(item) for item in value)


@given(value=DOCUMENTS, ascii_only=st.booleans(), blank=st.sampled_from(["", " ", "\n\t"]))
@example(value=Members([("a", Members([("b", 1)])), ("a", 2)]), ascii_only=True, blank="")
@example(value=Members([("a", ":"), ("a", "")]), ascii_only=False, blank="")
def test_a_name_given_twice_is_found_wherever_it_stands(
    value: Any, ascii_only: bool, blank: str
) -> None:
    """T14: of two equal names no decoder may choose in silence."""
    body = write(value, ascii_only=ascii_only, blank=blank).encode()
    if repeats_a_name(value):
        with pytest.raises(BadRequest, match="is given twice"):
            check(body)
    else:
        check(body)


@pytest.mark.parametrize(
    "body",
    [
        rb'{"a": 1, "\u0061": 2}',
        rb'{"a\u003a": 1, "a:": 2}',
        rb'{"a": "\u003A", "b": 1, "b": 2}',
        rb'{"x": {"a": 1, "a": 1}, "y": "\u003a\u003a"}',
    ],
)
def test_an_escaped_spelling_hides_no_second_name(body: bytes) -> None:
    with pytest.raises(BadRequest, match="is given twice"):
        check(body)


def test_an_escaped_colon_is_no_second_name() -> None:
    check(rb'{"a\u003a": "\u003a", "a": ":"}')


@pytest.mark.parametrize("number", [MAX_WHOLE_NUMBER + 1, -MAX_WHOLE_NUMBER - 1, 10**40])
def test_whole_numbers_that_others_misread_are_refused_by_name(number: int) -> None:
    body = b'{"variables": {"order": [1, {"id": %d}]}}' % number
    with pytest.raises(BadRequest) as refused:
        check(body)
    assert (refused.value.field, refused.value.status) == ("variables.order[1].id", 422)
    check(b"[%d, %d]" % (MAX_WHOLE_NUMBER, -MAX_WHOLE_NUMBER))


@pytest.mark.parametrize("kind", [b"[]", b'{"a":}'])
def test_depth_is_bounded(kind: bytes) -> None:
    opening, closing = kind[:-1], kind[-1:]
    fits = opening * (MAX_DEPTH - 1) + b"[]" + closing * (MAX_DEPTH - 1)
    check(fits)
    for deeper in (MAX_DEPTH, 900, 100_000):
        body = opening * deeper + b"[]" + closing * deeper
        with pytest.raises(BadRequest, match="nested deeper"):
            parse(body, Any)


class Inner(Struct, forbid_unknown_fields=True):
    to: list[str]
    headers: dict[str, str] = {}


class Outer(Struct, forbid_unknown_fields=True):
    items: list[Inner]
    word: str = ""


@pytest.mark.parametrize(
    ("body", "field", "problem"),
    [
        (b"[]", "body", "Expected object, got array"),
        (b"{}", "items", "is missing"),
        (b'{"items": [], "wrod": ""}', "wrod", "there is no such field"),
        (b'{"items": [], "a`b - at `c`": ""}', "a`b - at `c`", "there is no such field"),
        (b'{"items": [{"to": ["a", 7]}]}', "items[0].to[1]", "Expected str, got int"),
        (b'{"items": [{"to": []}, {}]}', "items[1].to", "is missing"),
        (b'{"items": [{"to": [], "x": 1}]}', "items[0].x", "there is no such field"),
        (
            b'{"items": [{"to": [], "headers": {"A": "1", "B": 2}}]}',
            "items[0].headers.B",
            "Expected str, got int",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_place(body: bytes, field: str, problem: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse(body, Outer)
    assert (refused.value.field, refused.value.detail) == (field, problem)
    assert refused.value.status == 422


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b'{"items": []} x',
        b"\xef\xbb\xbf{}",
        b'{"items": [], "word": "\xff"}',
        b'{"items": [], "word": "\\ud800"}',
        b'{"items": [], "word": "\xed\xa0\x80"}',
        b'{"items": [], "word": "a\x00b"}',
        b'{"items": [NaN]}',
        b'{"items": [Infinity]}',
        b"{'items': []}",
        b'{"items": [],}',
        '{"items": []}'.encode("utf-16"),
    ],
)
def test_what_is_no_json_in_utf_8_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        parse(body, Outer)
    assert (refused.value.field, refused.value.status) in (("body", 400), ("items[0]", 422))


@given(body=st.binary(max_size=60))
def test_no_bytes_make_it_stumble(body: bytes) -> None:
    try:
        value = parse(body, Any)
    except BadRequest:
        return
    assert msgspec.json.decode(body) == value


class TestWholeNumbers:
    """In JSON (RFC 8259) and JSON Schema 1.0 is the same number as 1."""

    @pytest.mark.parametrize("text", ["3", "3.0", "3.000", "0.3e1", "30E-1"])
    def test_any_spelling_is_accepted(self, text: str) -> None:
        body = b'{"to": ["ann@example.org"], "priority": %b}' % text.encode()
        found = parse(body, DeliveryIn)
        assert (found.priority, type(found.priority)) == (3, int)

    def test_also_in_every_item_of_a_batch(self) -> None:
        item = b'{"idempotency_key": "k", "to": ["a@b.example"],'
        item += b' "attachments": [{"filename": "a", "content_base64": "aGk="}], "priority": 1.0}'
        found = parse(b'{"items": [%b, %b]}' % (item, item), BatchIn)
        assert [each.priority for each in found.items] == [1, 1]
        assert found.items[1].attachments[0].content_base64 == b"hi"

    def test_what_a_template_is_given_stays_as_it_was_written(self) -> None:
        body = b'{"to": ["a@b.example"], "priority": 1.0, "variables": {"price": 2.0}}'
        price = parse(body, DeliveryIn).variables["price"]
        assert (price, type(price)) == (2.0, float)

    @pytest.mark.parametrize("text", ["1.5", "5.0", "1e300", "9007199254740994.0", "-1.0"])
    def test_other_numbers_are_refused_by_name(self, text: str) -> None:
        body = b'{"to": ["a@b.example"], "priority": %b}' % text.encode()
        with pytest.raises(BadRequest) as refused:
            parse(body, DeliveryIn)
        assert (refused.value.status, refused.value.field) == (422, "priority")

    def test_a_name_given_twice_is_refused_all_the_same(self) -> None:
        with pytest.raises(BadRequest, match="twice"):
            parse(b'{"to": ["a@b.example"], "priority": 1.0, "priority": 2.0}', DeliveryIn)
