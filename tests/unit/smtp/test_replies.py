"""Bytes into replies, however the network cuts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homing.providers.smtp.features import parse_features
from homing.providers.smtp.replies import MAX_LINE_BYTES, MAX_LINES, Reply, ReplyParser


def read(*pieces: bytes) -> list[Reply]:
    parser = ReplyParser()
    replies = [reply for piece in pieces for reply in parser.feed(piece)]
    assert parser.broken is None
    return replies


def test_one_line_and_many_lines() -> None:
    one, many = read(b"250 2.1.0 Ok\r\n250-first\r\n250-second\r\n250 third\r\n")
    assert (one.code, one.kind, one.text) == (250, 2, "2.1.0 Ok")
    assert many.lines == ("first", "second", "third")


def test_the_enhanced_code_stands_first_and_once() -> None:
    (reply,) = read(b"550-5.1.1 no such user\r\n550 5.1.1 here\r\n")
    assert reply.enhanced == "5.1.1"
    assert reply.text == "5.1.1 no such user here"
    (bare,) = read(b"550 5.1.1.1 looks like none\r\n")
    assert bare.enhanced is None


@pytest.mark.parametrize(
    "line", [b"250\r\n", b"250 \r\n", b"250 bare line feed\n", b"250 \xff\xfe not utf-8\r\n"]
)
def test_what_servers_really_say(line: bytes) -> None:
    (reply,) = read(line)
    assert reply.code == 250
    assert isinstance(reply.text, str)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\r\n",
        b"hello\r\n",
        b"25 short\r\n",
        b"2500 long\r\n",
        b"099 low\r\n",
        b"600 high\r\n",
        "\uff12\uff15\uff10 wide digits\r\n".encode(),
        b"250-one\r\n251 two\r\n",
        b"250-more\r\n" * (MAX_LINES + 2),
        b"250 " + b"x" * MAX_LINE_BYTES + b"\r\n",
        b"250 " + b"x" * MAX_LINE_BYTES,
    ],
)
def test_what_is_no_reply_breaks_the_parser_for_good(garbage: bytes) -> None:
    parser = ReplyParser()
    parser.feed(garbage)
    assert parser.broken is not None
    assert parser.feed(b"250 ok\r\n") == []


def test_what_was_complete_before_the_garbage_counts() -> None:
    parser = ReplyParser()
    (reply,) = parser.feed(b"250 accepted\r\nrubbish\r\n")
    assert reply.code == 250
    assert parser.broken is not None


_lines = st.lists(
    st.tuples(st.integers(200, 599), st.lists(st.binary(max_size=40), min_size=1, max_size=4)),
    max_size=6,
)


@given(_lines, st.data())
def test_split_points_change_nothing(
    replies: list[tuple[int, list[bytes]]], data: st.DataObject
) -> None:
    stream = b""
    for code, texts in replies:
        clean = [text.replace(b"\n", b"").removesuffix(b"\r") for text in texts]
        stream += b"".join(b"%d-%b\r\n" % (code, text) for text in clean[:-1])
        stream += b"%d %b\r\n" % (code, clean[-1])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*pieces) == read(stream)
    assert [reply.code for reply in read(stream)] == [code for code, _ in replies]


@given(st.lists(st.binary(max_size=200), max_size=10))
def test_any_bytes_end_in_replies_or_in_a_broken_parser(pieces: list[bytes]) -> None:
    parser = ReplyParser()
    for piece in pieces:
        for reply in parser.feed(piece):
            assert 200 <= reply.code < 600
            assert isinstance(reply.text, str)
            parse_features(reply)


def test_features_are_read_as_servers_write_them() -> None:
    (reply,) = read(
        b"250-mail.test\r\n250-pipelining\r\n250-SIZE 1024\r\n250-AUTH=LOGIN\r\n"
        b"250-AUTH PLAIN XOAUTH2\r\n250-\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n"
    )
    features = parse_features(reply)
    assert features.pipelining
    assert features.size
    assert features.size_limit_bytes == 1024
    assert features.auth == {"LOGIN", "PLAIN", "XOAUTH2"}
    assert features.eight_bit_mime
    assert features.smtputf8
    assert not features.starttls


def test_the_greeting_line_is_no_feature() -> None:
    (reply,) = read(b"250-STARTTLS\r\n250 SIZE\r\n")
    assert not parse_features(reply).starttls
    assert parse_features(reply).size_limit_bytes == 0
