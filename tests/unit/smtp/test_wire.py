"""What may go on the wire, and in which bytes."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from homing.content import addresses
from homing.domain.errors import InvalidRequest
from homing.providers.smtp.wire import address_problem, dot_stuffed, is_host, wire_content


@pytest.mark.parametrize(
    "address",
    [
        "ann@example.org",
        "ann.b+tag@sub.example.org",
        "o'brien@example.org",
        "trailing.@example.jp",
        '"quoted"@example.org',
        "ann@[192.0.2.1]",
        "ann@[IPv6:2001:db8::1]",
        "ann@localhost",
        "jürgen@example.org",
        "用户@例子.测试",
        "a" * 64 + "@example.org",
    ],
)
def test_addresses_that_go_out_as_they_are(address: str) -> None:
    assert address_problem(address) is None


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ann",
        "@example.org",
        "ann@",
        "ann@@example.org",
        "ann@exa mple.org",
        "ann b@example.org",
        "ann@example..org",
        "ann@-example.org",
        "<ann@example.org>",
        "ann@example.org>",
        '"a>"@example.org',
        "ann@example.org SIZE=1",
        "ann,bob@example.org",
        "a" * 65 + "@example.org",
        "ü" * 33 + "@example.org",
        "ann@" + ".".join(["a" * 63] * 5),
        "ann\u202e@example.org",
        "ann\ufeff@example.org",
        "ann@exam\u00a0ple.org",
        "ann@[192.0.2.1] x",
    ],
)
def test_addresses_that_never_go_out(address: str) -> None:
    assert address_problem(address) is not None


@given(st.text(max_size=60))
def test_no_address_can_hold_what_ends_a_command(address: str) -> None:
    if address_problem(address) is None:
        bare = re.sub(r'^"[^"]*"', "", address)  # a quoted local part may hold spaces
        assert not re.search(r"[\x00-\x1f\x7f<>]", address)
        assert " " not in bare
        assert len(address.encode()) <= 320


@given(
    local=st.text(
        alphabet=st.sampled_from("ab.1!#+=' \"\\<>(),;:@[]\u00fc\u7528\u202e"), max_size=20
    ),
    quoted=st.booleans(),
    domain=st.sampled_from(["example.org", "b\u00fccher.example", "EXAMPLE.org", "localhost"]),
)
@example(local="john doe", quoted=True, domain="example.org")
def test_an_address_that_is_accepted_at_intake_can_be_sent(
    local: str, quoted: bool, domain: str
) -> None:
    try:
        spec = addresses.normalise(f'"{local}"@{domain}' if quoted else f"{local}@{domain}")
    except InvalidRequest:
        return
    assert address_problem(spec) is None


@given(st.binary(max_size=300))
def test_content_has_no_lone_line_end_and_no_lone_dot(data: bytes) -> None:
    content = wire_content(data)
    if content is None:
        assert b"\0" in data or re.search(rb"\r(?!\n)", data)
        return
    wire = dot_stuffed(content)
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n|\0", wire)
    assert not re.search(rb"(?:\A|\n)\.\r", wire)
    assert not wire or wire.endswith(b"\r\n")
    assert undone(wire) == content
    assert content.replace(b"\r\n", b"\n").rstrip(b"\n") == data.replace(b"\r\n", b"\n").rstrip(
        b"\n"
    )


def undone(wire: bytes) -> bytes:
    """What RFC 5321 tells a server to do with a leading dot."""
    lines = wire.split(b"\r\n")
    return b"\r\n".join(line[1:] if line.startswith(b".") else line for line in lines)


def test_content_that_is_right_already_is_not_copied() -> None:
    data = b"Subject: x\r\n\r\nHello\r\n"
    assert dot_stuffed(wire_content(data) or b"") is data


def test_hosts() -> None:
    assert is_host("mail.example.org")
    assert is_host("[192.0.2.1]")
    assert not is_host("two words")
    assert not is_host("mail.example.org\r\nMAIL")
    assert not is_host("")
