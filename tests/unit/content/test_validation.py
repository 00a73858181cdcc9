"""The gate for e-mails: M-006, T14, T15."""

import tracemalloc
from typing import Any

import pytest
from msgspec.structs import replace

from homing.content.limits import Limits
from homing.content.validation import envelope_of, validate_email
from homing.domain.errors import InvalidRequest
from homing.domain.message import Attachment, Email, Invitation, decode_message, encode_message

GOOD = Email(to="ann@example.org", subject="Hi", text="Hello")
HTML = replace(GOOD, html="<img src='cid:a'>")
TEMPLATED = Email(to="ann@example.org", template_id="welcome", locale="en-us", variables={"a": 1})
ICS = (
    "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\nUID:1\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)

FILE = "attachments[0]"


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


WRONG: list[tuple[Email, dict[str, Any], str]] = [
    # recipients
    (GOOD, {"to": ()}, "to"),
    (GOOD, {"to": (), "reply_to": ("bob@example.org",)}, "to"),
    (GOOD, {"to": ("ann@example.org", "bob")}, "to[1]"),
    (GOOD, {"cc": ("bob",)}, "cc[0]"),
    (GOOD, {"bcc": ("bob@example.org", "x", "y")}, "bcc[1]"),
    (GOOD, {"reply_to": ("bob@",)}, "reply_to[0]"),
    (GOOD, {"sender": "bob"}, "from"),
    (GOOD, {"to": (1,)}, "to[0]"),
    # subject and bodies
    (GOOD, {"subject": None}, "subject"),
    (GOOD, {"subject": "a\x00b"}, "subject"),
    (GOOD, {"text": None}, "text"),
    (GOOD, {"text": ""}, "text"),
    (GOOD, {"text": "\ud800"}, "text"),
    (GOOD, {"text": "a\x00b"}, "text"),
    (GOOD, {"html": "ä\x00"}, "html"),
    (GOOD, {"metadata": {"a": "\x00"}}, "metadata"),
    (GOOD, {"metadata": {"\x00": "a"}}, "metadata"),
    (TEMPLATED, {"variables": {"a": ["x", {"b": "\x00"}]}}, "variables.a[1].b"),
    (TEMPLATED, {"variables": {"a\x00": 1}}, "variables"),
    (GOOD, {"html": 1}, "html"),
    (GOOD, {"html": "\udfff"}, "html"),
    (GOOD, {"locale": "en"}, "locale"),
    (GOOD, {"variables": {"a": 1}}, "variables"),
    # templates (M-117: variables are a JSON object)
    (TEMPLATED, {"subject": "x"}, "subject"),
    (TEMPLATED, {"text": "x"}, "text"),
    (TEMPLATED, {"html": "x"}, "html"),
    (TEMPLATED, {"template_id": ""}, "template_id"),
    (TEMPLATED, {"template_id": "../etc/passwd"}, "template_id"),
    (TEMPLATED, {"template_id": "x" * 101}, "template_id"),
    (TEMPLATED, {"locale": "nowhere"}, "locale"),
    (TEMPLATED, {"variables": [1]}, "variables"),
    (TEMPLATED, {"variables": "x"}, "variables"),
    (TEMPLATED, {"variables": None}, "variables"),
    (TEMPLATED, {"variables": {1: 2}}, "variables"),
    (TEMPLATED, {"variables": {"a": b"x"}}, "variables.a"),
    (TEMPLATED, {"variables": {"a": {"b": object()}}}, "variables.a.b"),
    (TEMPLATED, {"variables": {"a": [1, {2}]}}, "variables.a[1]"),
    (TEMPLATED, {"variables": {"a": float("nan")}}, "variables.a"),
    (TEMPLATED, {"variables": {"a": float("inf")}}, "variables.a"),
    (TEMPLATED, {"variables": {"a": 2**53 + 1}}, "variables.a"),
    (TEMPLATED, {"variables": {"a": "\ud800"}}, "variables.a"),
    (TEMPLATED, {"variables": {"a": deep(32)}}, "variables"),
    # files
    (GOOD, {"attachments": (1,)}, "attachments[0]"),
    (GOOD, {"attachments": (Attachment("a", b""), Attachment("", b""))}, "attachments[1].filename"),
    (GOOD, {"attachments": (Attachment("../a", b""),)}, f"{FILE}.filename"),
    (GOOD, {"attachments": (Attachment("a\\b", b""),)}, f"{FILE}.filename"),
    (GOOD, {"attachments": (Attachment("..", b""),)}, f"{FILE}.filename"),
    (GOOD, {"attachments": (Attachment("fdp\u202eexe.pdf", b""),)}, f"{FILE}.filename"),
    (GOOD, {"attachments": (Attachment("ü" * 128, b""),)}, f"{FILE}.filename"),
    (GOOD, {"attachments": (Attachment("a", "text"),)}, f"{FILE}.content"),  # type: ignore[arg-type]  # a caller without types
    *[
        (GOOD, {"attachments": (Attachment("a", b"", kind),)}, f"{FILE}.content_type")
        for kind in (
            "", "pdf", "application/", "/pdf", "a b/c", "application/pdf; x", "text/x; a=b\r\nX: y",
            "multipart/mixed", "message/partial", "message/external-body", "nonsense/x",
            'text/plain; boundary="x"', "text/plain; name=evil.exe", "text/plä", "x" * 300,
        )
    ],
    (GOOD, {"attachments": (Attachment("a", b"", content_id="a"),)}, f"{FILE}.content_id"),
    *[
        (HTML, {"attachments": (Attachment("a", b"", content_id=each),)}, f"{FILE}.content_id")
        for each in ("", "<a>", "a b", "cid:a", "a@b@c", 'a"', "a\r\nX: y", "ä", "x" * 201)
    ],
    (
        HTML,
        {"attachments": (Attachment("a", b"", content_id="a"),) * 2},
        "attachments[1].content_id",
    ),
    (
        HTML,
        {"attachments": (Attachment("a", b"", "message/rfc822", "a"),)},
        f"{FILE}.content_id",
    ),
    # the rest
    (GOOD, {"invitation": Invitation("nothing")}, "invitation.ics"),
    (GOOD, {"invitation": Invitation(ICS, "CANCEL")}, "invitation.ics"),
    (GOOD, {"invitation": Invitation(ICS, "request; x=y")}, "invitation.method"),
    (GOOD, {"invitation": ICS}, "invitation"),
    (GOOD, {"headers": {"Bcc": "eve@example.org"}}, "headers.Bcc"),
    (GOOD, {"metadata": {"a": 1}}, "metadata.a"),
    (GOOD, {"metadata": [1]}, "metadata"),
    (GOOD, {"metadata": {"a": "x" * 1001}}, "metadata"),
    (GOOD, {"metadata": {str(n): "" for n in range(51)}}, "metadata"),
]  # fmt: skip


@pytest.mark.parametrize(("mail", "change", "field"), WRONG, ids=lambda value: ascii(value)[:40])
def test_the_refusal_names_the_field(mail: Email, change: dict[str, Any], field: str) -> None:
    """M-006: envelope, payload shape, locale and attachments."""
    validate_email(mail)
    with pytest.raises(InvalidRequest) as refusal:
        validate_email(replace(mail, **change))
    assert refusal.value.field == field


def test_what_passes_is_in_its_normal_form() -> None:
    mail = validate_email(
        Email(
            to=[" Ann@Example.org ", '"Bob" <bob@bücher.example>'],
            subject="Hi",
            text="x",
            html="",
            headers={"list-id": "<a.example>"},
            attachments=[Attachment("a\u0308.txt", b"x", "TEXT/Plain; Charset=utf-8")],
        )
    )
    assert mail.to == ("Ann@example.org", "Bob <bob@xn--bcher-kva.example>")
    assert mail.html is None
    assert mail.headers == {"List-Id": "<a.example>"}
    assert mail.attachments == (Attachment("ä.txt", b"x", "text/plain; charset=utf-8"),)
    assert validate_email(mail) == mail


def test_a_templated_mail_has_a_canonical_locale_and_variables_of_its_own() -> None:
    """M-116; B-006: what the caller changes afterwards changes nothing."""
    variables: dict[str, Any] = {"trips": [{"city": "Rome"}], "n": 1, "x": None, "ok": True}
    mail = validate_email(Email(to="a@b.co", template_id="t", locale="EN_us", variables=variables))
    variables["trips"][0]["city"] = "Oslo"
    assert mail.locale == "en-US"
    assert mail.variables == {"trips": [{"city": "Rome"}], "n": 1, "x": None, "ok": True}
    assert validate_email(Email(to="a@b.co", template_id="t")).locale == "en"


def test_a_written_mail_shares_no_object_with_its_caller() -> None:
    given: dict[str, str] = {}
    mail = validate_email(replace(GOOD, variables=given, headers=given, metadata=given))
    given["X-Later"] = "y"
    assert (mail.variables, mail.headers, mail.metadata) == ({}, {}, {})


@pytest.mark.parametrize("field", ["cc", "bcc"])
def test_a_mail_needs_one_recipient_of_any_kind(field: str) -> None:
    mail = validate_email(Email(text="x", **{field: "Ann <ann@example.org>"}))  # type: ignore[arg-type]  # one field of three
    assert envelope_of(mail) == ("ann@example.org",)


def test_the_envelope_has_bare_addresses_each_once() -> None:
    """T2: what was checked is what goes on the wire."""
    mail = validate_email(
        Email(
            to=["Ann <a@b.co>", "c@d.co"], cc="a@B.co", bcc=['"X, Y" <e@f.co>', "c@d.co"], text="x"
        )
    )
    assert envelope_of(mail) == ("a@b.co", "c@d.co", "e@f.co")


def test_a_validated_mail_survives_the_codec() -> None:
    for mail in (GOOD, TEMPLATED, replace(GOOD, invitation=Invitation(ICS))):
        checked = validate_email(mail)
        assert decode_message(encode_message(checked)) == checked


AT_LIMIT: list[tuple[Limits, Email, Email]] = [
    (
        Limits(),
        replace(GOOD, to=("a@b.co",) * 60, bcc=("a@b.co",) * 40),
        replace(GOOD, to=("a@b.co",) * 60, bcc=("a@b.co",) * 41),
    ),
    (Limits(), replace(GOOD, to=("a@b.co",) * 100), replace(GOOD, to=("a@b.co",) * 101)),
    (
        Limits(),
        replace(GOOD, reply_to=("a@b.co",) * 10),
        replace(GOOD, reply_to=("a@b.co",) * 11),
    ),
    (Limits(), replace(GOOD, subject="x" * 998), replace(GOOD, subject="x" * 999)),
    (Limits(), replace(GOOD, text="x" * 1_000_000), replace(GOOD, text="x" * (1_000_000 + 1))),
    (Limits(), replace(GOOD, text="ü" * 500_000), replace(GOOD, text="ü" * 500_000 + "x")),
    (
        Limits(),
        replace(GOOD, text="x" * 500_000, html="x" * 500_000),
        replace(GOOD, text="x" * 500_000, html="x" * (500_000 + 1)),
    ),
    (
        Limits(),
        replace(TEMPLATED, variables={"a": "x" * (2**20 - 3)}),
        replace(TEMPLATED, variables={"a": "x" * (2**20 + 1)}),
    ),
    (
        Limits(),
        replace(TEMPLATED, variables={"a": deep(31)}),
        replace(TEMPLATED, variables={"a": deep(32)}),
    ),
    (
        Limits(),
        replace(GOOD, attachments=(Attachment("a", bytes(25_000_000)),)),
        replace(GOOD, attachments=(Attachment("a", bytes(25_000_000)), Attachment("b", b"x"))),
    ),
    (
        Limits(),
        replace(GOOD, attachments=(Attachment("a", b""),) * 50),
        replace(GOOD, attachments=(Attachment("a", b""),) * 51),
    ),
    (
        Limits(recipients=2),
        replace(GOOD, to=("a@b.co",) * 2),
        replace(GOOD, to=("a@b.co",) * 3),
    ),
]


@pytest.mark.parametrize(("limits", "within", "beyond"), AT_LIMIT, ids=range(len(AT_LIMIT)))
def test_each_limit_holds_to_the_last_one(limits: Limits, within: Email, beyond: Email) -> None:
    """T14."""
    validate_email(within, limits)
    with pytest.raises(InvalidRequest, match=r"too large|nested deeper"):
        validate_email(beyond, limits)


def test_long_names_are_not_copied_for_every_value_below_them() -> None:
    variables: dict[str, object] = {}
    for _ in range(30):
        variables = {"n" * 30_000: variables}
    email = replace(TEMPLATED, variables=variables)
    validate_email(email)
    tracemalloc.start()
    try:
        validate_email(email)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000
