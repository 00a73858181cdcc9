"""Custom headers: a fixed list of names, and values of the right shape (T1)."""

import pytest

from homing.content.headers import ALLOWED, check_headers, header_line
from homing.content.limits import DEFAULT, Limits
from homing.domain.errors import InvalidRequest

NEVER = [
    "Bcc", "To", "Cc", "From", "Reply-To", "Subject", "Date", "Received",
    "Return-Path", "MIME-Version", "Content-Type", "Content-Transfer-Encoding",
    "Content-Disposition", "Content-ID", "DKIM-Signature", "ARC-Seal", "Authentication-Results",
    "Resent-To", "Resent-Bcc", "Delivered-To", "Errors-To",
    "Return-Receipt-To", "Apparently-To", "Received-SPF", "Delivery-Date", "Status",
]  # fmt: skip

NAMES_THAT_INJECT = [
    "", " ", "X", "X-", "X-A ", " X-A", "X A", "X-A:", "X-A: b\r\nBcc", "X-A\r\nBcc", "X-A\n",
    "X-A\x0b",
    "X-Ä", "X-A\u2028", "X_A", "X-A;B", "X-" + "a" * 200, "X-A\x00", "X-(a)", "X--", "X-A-",
]  # fmt: skip


@pytest.mark.parametrize("name", NEVER)
def test_headers_that_homing_writes_itself_cannot_be_set(name: str) -> None:
    for spelling in (name, name.lower(), name.upper()):
        with pytest.raises(InvalidRequest, match=rf"^headers\.{spelling}: "):
            check_headers({spelling: "x@example.org"}, DEFAULT)


@pytest.mark.parametrize("name", NAMES_THAT_INJECT, ids=ascii)
def test_a_name_is_made_of_safe_letters(name: str) -> None:
    """T1: the standard library writes such names as they are."""
    with pytest.raises(InvalidRequest) as refusal:
        check_headers({name: "x"}, DEFAULT)
    assert "\r" not in str(refusal.value)
    with pytest.raises(InvalidRequest):
        header_line(name, "x")


@pytest.mark.parametrize(
    "name", ["X-MC-BccAddress", "x-smtpapi", "X-Bcc", "X-Envelope-To", "X-RCPT-TO"]
)
def test_orders_to_relays_cannot_be_set(name: str) -> None:
    """T21: some relays add recipients when such a header says so."""
    with pytest.raises(InvalidRequest, match="controls mail relays"):
        check_headers({name: "x"}, DEFAULT)


GOOD_VALUES = {
    "Auto-Submitted": "auto-generated",
    "Comments": "Ein schöner Tag",
    "Content-Language": "de, en-US",
    "Disposition-Notification-To": "Ann <ann@example.org>",
    "Feedback-ID": "campaign:42:example",
    "Importance": "High",
    "In-Reply-To": "<a@example.org>",
    "Keywords": "one, two",
    "List-Archive": "<https://example.org/archive>",
    "List-Help": "<mailto:help@example.org>",
    "List-Id": "DueSignal of ours <news.example.org>",
    "List-Owner": "<mailto:owner@example.org>",
    "List-Post": "NO",
    "List-Subscribe": "<https://example.org/join>",
    "List-Unsubscribe": "<https://example.org/u?x=1>, <mailto:u@example.org?subject=x>",
    "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    "Message-ID": "<42.a@example.org>",
    "Organization": "Example & Söhne",
    "Precedence": "bulk",
    "Priority": "urgent",
    "References": "<a@example.org> <b@example.org>",
    "Sender": "ann@example.org",
    "Sensitivity": "Private",
    "X-Anything": "Grüße = ?",
}


@pytest.mark.parametrize(("name", "value"), GOOD_VALUES.items())
def test_the_name_gets_its_usual_spelling(name: str, value: str) -> None:
    assert check_headers({name: f" {value} "}, DEFAULT) == {name: value}
    if name.lower() in ALLOWED:
        assert check_headers({name.lower(): value}, DEFAULT) == {name: value}


def test_every_allowed_header_has_an_example() -> None:
    assert {name.lower() for name in GOOD_VALUES} - {"x-anything"} == set(ALLOWED)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("References", "a@example.org"),
        ("Message-ID", "42"),
        ("Message-ID", "<a@example.org> <b@example.org>"),
        ("Sender", "Ann"),
        ("Sender", "ann@example.org, bob@example.org"),
        ("Disposition-Notification-To", "<>"),
        ("References", "<a@example.org>\r\n <b@example.org>"),
        ("References", f"<{'a' * 950}@example.org>"),
        ("List-Unsubscribe", "https://example.org/u"),
        ("List-Unsubscribe", "<https://example.org/ü>"),
        ("List-Unsubscribe-Post", "yes"),
        ("Precedence", "first-class"),
        ("Importance", "extreme"),
        ("Auto-Submitted", "maybe"),
        ("X-A", ""),
        ("X-A", "   "),
        ("X-A", "a\tb"),
        ("X-A", "x" * 2001),
    ],
)
def test_a_value_of_the_wrong_shape_names_its_header(name: str, value: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check_headers({name: value}, DEFAULT)
    assert refusal.value.field == f"headers.{name}"


LINK = "https://example.org/u?a==?utf-8?q?x?=&b=" + "c" * 80
STRUCTURED = {
    "In-Reply-To": "<=?utf-8?q?a?=@example.org>",
    "References": "<=?utf-8?q?a?=@example.org> <=?b=?@example.org> " + f"<{'x' * 200}@example.org>",
    "List-Unsubscribe": f"<{LINK}>, <mailto:u@example.org?subject==?utf-8?b?eA==?=>",
    "List-Archive": f"<{LINK}>",
    "List-Help": f"<{LINK}>",
    "List-Owner": f"<{LINK}>",
    "List-Post": f"<{LINK}>",
    "List-Subscribe": f"<{LINK}>",
    "List-Id": "=?utf-8?q?B=C3=BCcher?= <news.example.org>",
    "Feedback-ID": "=?utf-8?q?a?=:b",
    "Message-ID": "<=?utf-8?q?a?=@example.org>",
}


@pytest.mark.parametrize(("name", "value"), STRUCTURED.items())
def test_a_structured_header_is_never_encoded_as_words(name: str, value: str) -> None:
    [(checked, text)] = check_headers({name: value}, DEFAULT).items()
    line = header_line(checked, text)
    assert line.replace("\r\n", "") == f"{name}: {value}"


@pytest.mark.parametrize("name", sorted(set(GOOD_VALUES) - {"Comments", "Organization"}))
def test_no_header_that_programs_read_is_written_otherwise_than_given(name: str) -> None:
    value = GOOD_VALUES[name]
    if value.isascii():
        assert header_line(name, value).replace("\r\n", "") == f"{name}: {value}"


@pytest.mark.parametrize("value", ["a=?b", "https://example.org/?x==?y", "=?", "?=", "=?a?x?b?="])
def test_free_text_that_no_reader_decodes_is_not_encoded_either(value: str) -> None:
    assert header_line("X-Ref", value) == f"X-Ref: {value}"


def test_the_address_of_a_header_has_its_normal_form() -> None:
    headers = check_headers({"sender": " Ann <ann@Bücher.example> "}, DEFAULT)
    assert headers == {"Sender": "Ann <ann@xn--bcher-kva.example>"}


@pytest.mark.parametrize("value", ["ä", "", "x" * 2000, "a\r\nBcc: b@c.de"])
def test_a_structured_value_that_cannot_be_written_as_it_is_is_refused(value: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^headers\.References: "):
        header_line("References", value)


def test_a_header_is_given_once_and_not_too_often() -> None:
    with pytest.raises(InvalidRequest, match=r"headers\.X-a: is given twice"):
        check_headers({"X-A": "1", "X-a": "2"}, DEFAULT)
    with pytest.raises(InvalidRequest, match=r"headers\.Precedence: is given twice"):
        check_headers({"Precedence": "bulk", "precedence": "list"}, DEFAULT)
    with pytest.raises(InvalidRequest, match="too large"):
        check_headers({"X-A": "1", "X-B": "2"}, Limits(headers=1))


@pytest.mark.parametrize("headers", [[("X-A", "1")], "X-A: 1", {"X-A": 1}, {1: "x"}, {"X-A": None}])
def test_headers_are_text_by_name(headers: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^headers"):
        check_headers(headers, DEFAULT)  # type: ignore[arg-type]  # a caller without types
