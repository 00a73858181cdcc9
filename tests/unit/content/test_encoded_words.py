"""RFC 2047: words of at most 75 characters that read back as the text."""

from email.header import decode_header, make_header

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homing.content.encoded_words import encode


@given(st.text(min_size=1, max_size=300), st.integers(min_value=10, max_value=75))
def test_the_words_read_back_as_the_text(text: str, first_room: int) -> None:
    words = encode(text, first_room)
    assert all(len(word) <= 75 and word.isascii() and " " not in word for word in words)
    assert str(make_header(decode_header(" ".join(words)))) == text
    for word in words:  # no character is cut in two (RFC 2047, section 5)
        assert str(make_header(decode_header(word)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Grüße", ["=?utf-8?b?R3LDvMOfZQ==?="]),
        ("Viele liebe Grüße A_B", ["=?utf-8?q?Viele_liebe_Gr=C3=BC=C3=9Fe_A=5FB?="]),
        ("漢字", ["=?utf-8?b?5ryi5a2X?="]),
        ("=?utf-8?q?x?=", ["=?utf-8?b?PT91dGYtOD9xP3g/PQ==?="]),
    ],
)
def test_mostly_latin_text_stays_readable(text: str, words: list[str]) -> None:
    assert encode(text) == words
