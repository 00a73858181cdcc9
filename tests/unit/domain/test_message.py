"""What a caller hands in is frozen as bytes, and read back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homing.domain.errors import InvalidRequest
from homing.domain.message import (
    Attachment,
    Email,
    Event,
    Invitation,
    Job,
    Message,
    decode_message,
    encode_message,
)


def text(max_size: int | None = None) -> st.SearchStrategy[str]:
    return st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=max_size
    )


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text(), inner, max_size=3),
    max_leaves=8,
)
words = st.dictionaries(text(max_size=5), text(max_size=5), max_size=3)
addresses = text(max_size=8) | st.lists(text(max_size=8), max_size=3)
emails = st.builds(
    Email,
    to=addresses,
    subject=text(max_size=9),
    text=text(max_size=9),
    html=st.none() | text(max_size=9),
    sender=st.none() | text(max_size=9),
    cc=addresses,
    bcc=addresses,
    reply_to=addresses,
    attachments=st.lists(st.builds(Attachment, text(max_size=5), st.binary(max_size=5))),
    invitation=st.none() | st.builds(Invitation, text(max_size=5)),
    headers=words,
    template_id=st.none() | text(max_size=5),
    variables=st.dictionaries(text(max_size=5), json_values, max_size=3),
    metadata=words,
)
messages: st.SearchStrategy[Message] = st.one_of(
    emails,
    st.builds(Event, type=text(max_size=9), data=json_values, metadata=words),
    st.builds(Job, name=text(max_size=9), data=json_values, metadata=words),
)


@given(messages)
def test_a_message_is_read_back_as_it_was(message: Message) -> None:
    assert decode_message(encode_message(message)) == message
    assert type(decode_message(encode_message(message))) is type(message)


@given(messages)
def test_the_same_message_gives_the_same_bytes(message: Message) -> None:
    again = decode_message(encode_message(message))

    assert encode_message(again) == encode_message(message)


def test_the_order_in_which_it_was_written_down_is_no_difference() -> None:
    one = Event("paid", {"a": 1, "b": {"x": 1, "y": 2}}, {"m": "1", "n": "2"})
    other = Event("paid", {"b": {"y": 2, "x": 1}, "a": 1}, {"n": "2", "m": "1"})

    assert encode_message(one) == encode_message(other)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_does_not_have_is_refused(number: float) -> None:
    """It would become null in silence."""
    for message in (
        Event("paid", {"lines": [{"amount": number}, None]}),
        Job("review", number),
        Email(to="ann@example.org", template_id="t", variables={"sum": (1.0, number)}),
    ):
        with pytest.raises(InvalidRequest, match="not a number that JSON can hold"):
            encode_message(message)


def test_the_payload_is_plain_json_that_others_can_read() -> None:
    email = Email(to="ann@example.org", subject="Grüße", attachments=[Attachment("a", b"\xff")])

    assert encode_message(Event("paid", {"b": 1, "a": None}, {"m": "1"})) == (
        b'{"kind":"event","type":"paid","data":{"a":null,"b":1},"metadata":{"m":"1"}}'
    )
    assert json.loads(encode_message(email)) == {
        "kind": "email",
        "to": ["ann@example.org"],
        "subject": "Grüße",
        "attachments": [{"filename": "a", "content": "/w=="}],
    }


def test_a_payload_made_by_others_is_read() -> None:
    made = '{ "type": "paid", "data": {"a": 1.50}, "kind": "event", "metadata": {} }'

    assert decode_message(made.encode()) == Event("paid", {"a": 1.5})


@pytest.mark.parametrize(
    "to",
    ["ann@example.org", ["ann@example.org"], ("ann@example.org",)],
    ids=["text", "list", "tuple"],
)
def test_one_address_or_many_everyone_sees_a_tuple(to: str | list[str]) -> None:
    email = Email(to=to, cc=to, bcc=to, reply_to=to)

    expected = ("ann@example.org",)
    assert (email.to, email.cc, email.bcc, email.reply_to) == (expected,) * 4
    assert encode_message(email) == encode_message(Email(to=expected, cc=to, bcc=to, reply_to=to))


def test_what_is_left_out_and_what_is_empty_are_the_same_request() -> None:
    plain = Email(to="ann@example.org")
    spelled = Email(
        to=["ann@example.org"], subject="", cc=[], bcc=(), attachments=[], headers={}, variables={}
    )

    assert encode_message(plain) == encode_message(spelled)
    assert plain == spelled


def test_everybody_gets_it_once_in_order() -> None:
    email = Email(
        to=["bob@example.org", "ann@example.org"],
        cc="ann@example.org",
        bcc=["cat@example.org", "bob@example.org"],
        reply_to="dan@example.org",
    )

    assert email.envelope == ("bob@example.org", "ann@example.org", "cat@example.org")


def test_files_keep_their_bytes() -> None:
    content = bytes(range(256))
    email = Email(to="a@b.c", attachments=[Attachment("a.bin", content, "application/x-test")])

    [attachment] = decode_message(encode_message(email)).attachments  # type: ignore[union-attr] # it is an Email

    assert attachment == Attachment("a.bin", content, "application/x-test")


def test_a_message_cannot_be_changed_once_it_is_made() -> None:
    with pytest.raises(AttributeError):
        Email(to="a@b.c").subject = "other"  # type: ignore[misc] # that is the point


def test_kinds_are_told_apart() -> None:
    assert isinstance(decode_message(encode_message(Event("x"))), Event)
    assert isinstance(decode_message(encode_message(Job("x"))), Job)


@pytest.mark.parametrize("name", ["to", "cc", "bcc", "reply_to"])
def test_what_is_no_address_at_all_is_refused(name: str) -> None:
    words: dict[str, Any] = {"to": "a@b.c", name: 5}

    with pytest.raises(InvalidRequest, match=name):
        Email(**words)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Event("paid\0"), "type"),
        (Event("paid", {"lines": [{"text": "a\0b"}]}), "data.lines[0].text"),
        (Event("paid", {"a\0": 1}), "data"),
        (Job("review", ["x", "\0"]), "data[1]"),
        (Job("review", metadata={"by": "\0"}), "metadata.by"),
        (Email(to="ann@example.org", template_id="t", variables={"a": "\0"}), "variables.a"),
    ],
)
def test_nul_in_a_text_is_refused_and_its_place_named(message: Message, field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        encode_message(message)
    assert refusal.value.field == field


def test_text_that_only_looks_like_an_escaped_nul_is_kept() -> None:
    event = Event("paid", {"a": r"\u0000"})
    assert decode_message(encode_message(event)) == event
