"""Custom headers: a fixed list of names, and values of the right shape (T1)."""

import pytest

from homing.content.headers import ALLOWED, canonical_name, check_headers
from homing.content.limits import DEFAULT, Limits
from homing.domain.errors import InvalidRequest

NEVER = [
    "Bcc", "To", "Cc", "From", "Sender", "Reply-To", "Subject", "Message-ID", "Date", "Received",
    "Return-Path", "MIME-Version", "Content-Type", "Content-Transfer-Encoding",
    "Content-Disposition", "Content-ID", "DKIM-Signature", "ARC-Seal", "Authentication-Results",
    "Resent-To", "Resent-Bcc", "Delivered-To", "Disposition-Notification-To", "Errors-To",
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
        canonical_name(name)


@pytest.mark.parametrize(
    "name", ["X-MC-BccAddress", "x-smtpapi", "X-Bcc", "X-Envelope-To", "X-RCPT-TO"]
)
def test_orders_to_relays_cannot_be_set(name: str) -> None:
    """T21: some relays add recipients when such a header says so."""
    with pytest.raises(InvalidRequest, match="order to a mail relay"):
        check_headers({name: "x"}, DEFAULT)


GOOD_VALUES = {
    "Auto-Submitted": "auto-generated",
    "Comments": "Ein schöner Tag",
    "Content-Language": "de, en-US",
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
    "Organization": "Example & Söhne",
    "Precedence": "bulk",
    "Priority": "urgent",
    "References": "<a@example.org> <b@example.org>",
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
