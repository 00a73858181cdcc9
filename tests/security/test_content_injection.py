"""T1, T2, T3: no field can add a header, a recipient or a message."""

import email.parser
import email.policy
import re
from collections.abc import Callable
from typing import Any

import pytest

from homing.content.mime import build
from homing.content.validation import envelope_of, validate_email
from homing.domain.errors import InvalidRequest
from homing.domain.message import Attachment, Email, Invitation

SEPARATORS = {
    "CR": "\r", "LF": "\n", "CRLF": "\r\n", "VT": "\x0b", "FF": "\x0c", "FS": "\x1c", "GS": "\x1d",
    "RS": "\x1e", "NEL": "\x85", "LS": "\u2028", "PS": "\u2029", "NUL": "\x00",
}  # fmt: skip
INJECTION = "Bcc: eve@evil.example"


def at_start(text: str, separator: str) -> str:
    return separator + INJECTION + separator + text


def in_middle(text: str, separator: str) -> str:
    half = len(text) // 2
    return text[:half] + separator + INJECTION + separator + text[half:]


def at_end(text: str, separator: str) -> str:
    return text + separator + INJECTION


def folded(text: str, separator: str) -> str:
    return text[:1] + separator + " " + text[1:] + separator + "\t" + INJECTION


POSITIONS = (at_start, in_middle, at_end, folded)

# Every field that ends up in a header or on the envelope; each makes a mail from its text.
FIELDS: dict[str, tuple[str, str, Callable[[str], Email]]] = {
    "subject": ("subject", "Hello there", lambda s: Email(to="a@b.co", subject=s, text="x")),
    "to": ("to[0]", "ann@example.org", lambda s: Email(to=[s], text="x")),
    "to name": (
        "to[1]",
        "Ann Lee",
        lambda s: Email(to=["a@b.co", f'"{s}" <ann@example.org>'], text="x"),
    ),
    "to bare name": ("to[0]", "Ann Lee", lambda s: Email(to=[f"{s} <a@b.co>"], text="x")),
    "cc": ("cc[0]", "ann@example.org", lambda s: Email(to="a@b.co", cc=[s], text="x")),
    "bcc": ("bcc[0]", "ann@example.org", lambda s: Email(to="a@b.co", bcc=[s], text="x")),
    "reply_to": (
        "reply_to[0]",
        "ann@example.org",
        lambda s: Email(to="a@b.co", reply_to=[s], text="x"),
    ),
    "sender": ("from", "ann@example.org", lambda s: Email(to="a@b.co", sender=s, text="x")),
    "sender name": (
        "from",
        "Ann Lee",
        lambda s: Email(to="a@b.co", sender=f'"{s}" <a@b.co>', text="x"),
    ),
    "header name": (
        "headers",
        "X-Custom",
        lambda s: Email(to="a@b.co", headers={s: "v"}, text="x"),
    ),
    "header value": (
        "headers.X-Custom",
        "some value",
        lambda s: Email(to="a@b.co", headers={"X-Custom": s}, text="x"),
    ),
    "header shaped value": (
        "headers.References",
        "<abc@example.org>",
        lambda s: Email(to="a@b.co", headers={"References": s}, text="x"),
    ),
    "header with an id": (
        "headers.Message-ID",
        "<abc@example.org>",
        lambda s: Email(to="a@b.co", headers={"Message-ID": s}, text="x"),
    ),
    "header with an address": (
        "headers.Sender",
        "Ann <ann@example.org>",
        lambda s: Email(to="a@b.co", headers={"Sender": s}, text="x"),
    ),
    "content_id": (
        "attachments[0].content_id",
        "logo",
        lambda s: Email(to="a@b.co", html="x", attachments=[Attachment("a", b"x", "image/png", s)]),
    ),
    "filename": (
        "attachments[0].filename",
        "report.pdf",
        lambda s: Email(to="a@b.co", text="x", attachments=[Attachment(s, b"x")]),
    ),
    "content_type": (
        "attachments[0].content_type",
        "application/pdf",
        lambda s: Email(to="a@b.co", text="x", attachments=[Attachment("a", b"x", s)]),
    ),
    "content_type parameter": (
        "attachments[0].content_type",
        "utf-8",
        lambda s: Email(
            to="a@b.co", text="x", attachments=[Attachment("a", b"x", f'text/csv; charset="{s}"')]
        ),
    ),
    "invitation method": (
        "invitation.method",
        "REQUEST",
        lambda s: Email(to="a@b.co", text="x", invitation=Invitation("BEGIN:VCALENDAR", s)),
    ),
    "template_id": ("template_id", "welcome", lambda s: Email(to="a@b.co", template_id=s)),
    "locale": ("locale", "en-US", lambda s: Email(to="a@b.co", template_id="t", locale=s)),
}

# `build` does not look at these: nothing of them is in the message.
NOT_WRITTEN = {"bcc", "sender", "sender name"}

every_field = pytest.mark.parametrize("name", FIELDS)
every_separator = pytest.mark.parametrize("separator", SEPARATORS.values(), ids=SEPARATORS)


@every_field
@every_separator
def test_the_gate_refuses_it_and_names_the_field(name: str, separator: str) -> None:
    """T1: refused, not stripped; the answer itself cannot carry the injection on."""
    field, text, mail = FIELDS[name]
    for place in POSITIONS:
        with pytest.raises(InvalidRequest) as refusal:
            validate_email(mail(place(text, separator)))
        assert refusal.value.field == field
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029]", str(refusal.value))
        assert "evil" not in str(refusal.value)


@every_field
@every_separator
def test_the_writer_does_not_trust_the_gate(name: str, separator: str) -> None:
    """Even a mail that was never checked cannot get a header that was not meant."""
    _, text, mail = FIELDS[name]
    for place in POSITIONS:
        unchecked = mail(place(text, separator))
        if name not in NOT_WRITTEN:
            with pytest.raises(InvalidRequest):
                build(unchecked, message_id="<1@b.co>", date_ms=0, sender="a@b.co")
            continue
        data = build(unchecked, message_id="<1@b.co>", date_ms=0, sender="a@b.co")
        read = email.parser.BytesParser(policy=email.policy.default).parsebytes(data)
        assert read["Bcc"] is None
        assert b"\r\nBcc:" not in data
        assert not re.search(rb"\r(?!\n)|(?<!\r)\n", data)


@every_separator
@pytest.mark.parametrize("place", POSITIONS)
@pytest.mark.parametrize("field", ["message_id", "sender"])
def test_what_the_route_brings_is_checked_as_well(
    field: str, place: Callable[[str, str], str], separator: str
) -> None:
    args: dict[str, Any] = {"message_id": "<1@b.co>", "date_ms": 0, "sender": "Desk <a@b.co>"}
    args[field] = place(args[field], separator)
    with pytest.raises(InvalidRequest):
        build(Email(to="a@b.co", text="x"), **args)


# What some server, somewhere, takes for the end of the data.
END_OF_DATA = [
    before + "." + after
    for before in ("\r\n", "\n", "\r", "\n\r", "\r\r\n")
    for after in ("\r\n", "\n", "\r", "\n\r", "\r\r\n")
]
SMUGGLED = "MAIL FROM:<eve@evil.example>\r\nRCPT TO:<bob@b.co>\r\nDATA\r\nSubject: x\r\n\r\nx"


@pytest.mark.parametrize("end", END_OF_DATA, ids=ascii)
@pytest.mark.parametrize("where", ["text", "html", "ics", "attachment", "message"])
def test_no_body_can_end_the_data(end: str, where: str) -> None:
    """T3: after dot-stuffing there is one end of data, in all 25 spellings."""
    payload = f"hello{end}{SMUGGLED}{end}"
    mail = {
        "text": lambda: Email(to="a@b.co", text=payload),
        "html": lambda: Email(to="a@b.co", text="x", html=payload),
        "ics": lambda: Email(to="a@b.co", text="x", invitation=Invitation(payload)),
        "attachment": lambda: Email(
            to="a@b.co", text="x", attachments=[Attachment("a", payload.encode())]
        ),
        "message": lambda: Email(
            to="a@b.co",
            text="x",
            attachments=[Attachment("a", payload.encode(), "message/rfc822")],
        ),
    }[where]()
    data = build(mail, message_id="<1@b.co>", date_ms=0, sender="a@b.co")
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n", data)
    stuffed = re.sub(rb"(?m)^\.", b"..", data)
    assert not re.search(rb"[\r\n]\.[\r\n]", stuffed)


@pytest.mark.parametrize(
    "address",
    [
        "a@b.co\r\nRCPT TO:<evil@x.co>",
        "a@b.co>\r\nRCPT TO:<evil@x.co",
        "a@b.co> NOTIFY=NEVER",
        "a@b.co SIZE=1",
    ],
)
def test_no_address_brings_a_command_along(address: str) -> None:
    """T2: smtplib would send the first and drop the rest in silence."""
    with pytest.raises(InvalidRequest):
        validate_email(Email(to=address, text="x"))
    with pytest.raises(InvalidRequest):
        envelope_of(Email(to=address, text="x"))
