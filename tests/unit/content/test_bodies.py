"""Bodies: 7bit, quoted-printable or base64, whichever carries the text unchanged."""

import binascii
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homing.content.bodies import base64_lines, encode_text, write_base64


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("hello", "7bit"),
        ("", "7bit"),
        ("tab\there", "7bit"),
        ("x" * 998, "7bit"),
        ("x" * 999, "quoted-printable"),
        ("a\n" + "x" * 2000 + "\nb", "quoted-printable"),
        ("Grüße aus der alten Stadt München", "quoted-printable"),
        ("nul\x00, bell\x07 and a page\x0c in a long enough line of text", "quoted-printable"),
        ("漢字" * 20, "base64"),
        ("привет", "base64"),
    ],
)
def test_the_encoding_fits_the_text(text: str, encoding: str) -> None:
    assert encode_text(text)[0] == encoding


@given(
    st.text(
        alphabet=st.one_of(
            st.sampled_from("ab .=\t\r\n\x00\x0c\x85\u2028ä漢"),
            st.characters(exclude_categories=["Cs"]),
        )
    )
)
def test_the_text_comes_back_with_its_lines_ended_alike(text: str) -> None:
    encoding, body = encode_text(text)
    data = body.encode("ascii")
    assert data.endswith(b"\r\n")
    if encoding == "base64":
        data = binascii.a2b_base64(data)
    elif encoding == "quoted-printable":
        data = binascii.a2b_qp(data)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n") + "\n"
    assert data.decode() == lines.replace("\n", "\r\n")
    assert max(map(len, body.split("\r\n"))) <= (998 if encoding == "7bit" else 76)


@pytest.mark.parametrize("size", [0, 1, 56, 57, 58, 57 * 1024, 57 * 1024 + 1, 200_000])
def test_base64_in_blocks_is_base64(size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    out = io.BytesIO()
    write_base64(data, out)
    assert out.getvalue() == base64_lines(data)
    assert binascii.a2b_base64(out.getvalue()) == data
    assert all(len(line) == 76 for line in out.getvalue().split(b"\r\n")[:-2])
