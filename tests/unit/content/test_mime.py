"""The bytes of a mail, shape by shape."""

import email.parser
import email.policy
from email.message import EmailMessage

import pytest

from homing.content.mime import build
from homing.content.validation import validate_email
from homing.domain.errors import InvalidRequest
from homing.domain.message import Attachment, Email, Invitation

ICS = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nMETHOD:{method}\r\nBEGIN:VEVENT\r\nUID:1\r\n"
    "END:VEVENT\r\nEND:VCALENDAR\r\n"
)


def written(mail: Email, sender: str = "Desk <desk@example.org>") -> bytes:
    return build(
        validate_email(mail), message_id="<1@example.org>", date_ms=1_700_000_000_000, sender=sender
    )


def read(data: bytes) -> EmailMessage:
    message = email.parser.BytesParser(policy=email.policy.default).parsebytes(data)
    assert isinstance(message, EmailMessage)
    return message


def test_a_plain_mail_looks_like_this() -> None:
    mail = Email(to="ann@example.org", subject="Booked", text="See you Monday")
    assert written(mail) == (
        b"From: Desk <desk@example.org>\r\n"
        b"To: ann@example.org\r\n"
        b"Subject: Booked\r\n"
        b"Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n"
        b"Message-ID: <1@example.org>\r\n"
        b"MIME-Version: 1.0\r\n"
        b'Content-Type: text/plain; charset="utf-8"\r\n'
        b"Content-Transfer-Encoding: 7bit\r\n"
        b"\r\n"
        b"See you Monday\r\n"
    )


def test_text_and_html_are_alternatives() -> None:
    message = read(written(Email(to="ann@example.org", text="Grüße", html="<p>Grüße</p>")))
    assert message.get_content_type() == "multipart/alternative"
    text, html = message.iter_parts()
    assert (text.get_content_type(), text.get_content().strip()) == ("text/plain", "Grüße")
    assert (html.get_content_type(), html.get_content().strip()) == ("text/html", "<p>Grüße</p>")


def test_html_may_stand_alone() -> None:
    message = read(written(Email(to="ann@example.org", html="<p>x</p>")))
    assert message.get_content_type() == "text/html"


@pytest.mark.parametrize("method", ["REQUEST", "CANCEL"])
def test_an_invitation_is_an_alternative_and_a_file(method: str) -> None:
    """B-048: the calendar part has the right method; B-020: other methods survive."""
    invitation = Invitation(ICS.format(method=method), method)
    message = read(written(Email(to="ann@example.org", text="x", invitation=invitation)))
    assert message.get_content_type() == "multipart/mixed"
    shown, file = message.iter_parts()
    assert shown.get_content_type() == "multipart/alternative"
    text, calendar = shown.iter_parts()
    assert text.get_content_type() == "text/plain"
    assert calendar.get_content_type() == "text/calendar"
    assert calendar["Content-Type"].params["method"] == method
    assert calendar.get_content() == invitation.ics
    assert file.get_filename() == "invite.ics"
    assert file.get_content() == invitation.ics.encode()


def test_files_come_after_the_text_with_names_in_any_script() -> None:
    names = [
        "a.pdf",
        "Übersicht mit Leerzeichen und einem langen Namen, der kein Ende nimmt.pdf",
        "漢字" * 30,
    ]
    mail = Email(
        to="ann@example.org",
        text="x",
        html="<p>x</p>",
        attachments=[Attachment(name, name.encode() * 9, "application/pdf") for name in names],
    )
    message = read(written(mail))
    body, *files = message.iter_parts()
    assert body.get_content_type() == "multipart/alternative"
    assert [file.get_filename() for file in files] == names
    assert [file.get_content() for file in files] == [name.encode() * 9 for name in names]
    assert all(file.get_content_disposition() == "attachment" for file in files)


def test_an_attached_message_travels_as_a_message() -> None:
    inner = b"From: a@example.org\nSubject: inner\n\nhello\n"
    mail = Email(
        to="ann@example.org", text="x", attachments=[Attachment("m.eml", inner, "message/rfc822")]
    )
    _, attached = read(written(mail)).iter_parts()
    assert attached.get_content()["Subject"] == "inner"


@pytest.mark.parametrize(
    "inner",
    [
        "From: a@example.org\nSubject: ü\n\nGrüße\n".encode(),
        b"Subject: x\n\n" + b"y" * 2000,
        b"Subject: x\n\n\x00",
    ],
)
def test_an_attached_message_that_cannot_travel_as_one_travels_as_a_file(inner: bytes) -> None:
    mail = Email(
        to="ann@example.org", text="x", attachments=[Attachment("m.eml", inner, "message/rfc822")]
    )
    data = written(mail)
    _, attached = read(data).iter_parts()
    assert data.isascii()
    assert attached.get_content_type() == "application/octet-stream"
    assert (attached.get_filename(), attached.get_content()) == ("m.eml", inner)


LOGO = Attachment("logo.png", b"\x89PNG", "image/png", content_id="logo")
PRICES = Attachment("prices.pdf", b"%PDF", "application/pdf")


def test_html_shows_the_files_that_have_an_id() -> None:
    mail = Email(
        to="ann@example.org",
        text="x",
        html='<img src="cid:logo">',
        attachments=[PRICES, LOGO],
    )
    message = read(written(mail))
    shown, file = message.iter_parts()
    assert message.get_content_type() == "multipart/mixed"
    assert (file.get_filename(), file["Content-ID"]) == ("prices.pdf", None)
    text, related = shown.iter_parts()
    assert (shown.get_content_type(), text.get_content_type()) == (
        "multipart/alternative",
        "text/plain",
    )
    assert related.get_content_type() == "multipart/related"
    assert related["Content-Type"].params["type"] == "text/html"
    html, logo = related.iter_parts()
    assert html.get_content_type() == "text/html"
    assert (logo["Content-ID"], logo.get_content_disposition()) == ("<logo>", "inline")
    assert (logo.get_filename(), logo.get_content()) == ("logo.png", b"\x89PNG")


def test_html_alone_with_a_picture_is_one_related_part() -> None:
    message = read(written(Email(to="ann@example.org", html="<img>", attachments=[LOGO])))
    assert message.get_content_type() == "multipart/related"


def test_without_html_a_picture_is_a_file() -> None:
    """A template may have HTML in one locale only."""
    mail = Email(to="ann@example.org", text="x", attachments=[LOGO])
    data = build(mail, message_id="<1@example.org>", date_ms=0, sender="a@example.org")
    _, logo = read(data).iter_parts()
    assert (logo.get_content_disposition(), logo.get_filename()) == ("attachment", "logo.png")


def test_a_mail_to_hidden_recipients_says_so() -> None:
    data = written(Email(bcc=["eve@secret.example", "bob@secret.example"], text="x"))
    assert b"\r\nTo: undisclosed-recipients:;\r\n" in data
    assert not read(data)["To"].defects
    assert read(data)["To"].addresses == ()
    assert b"secret" not in data
    assert read(written(Email(cc="cy@example.org", text="x")))["To"] is None


def test_a_mail_may_have_its_own_id_and_headers_with_addresses() -> None:
    headers = {
        "message-id": "<booking.42@example.org>",
        "sender": "Örg <org@example.org>",
        "Disposition-Notification-To": "ann@example.org",
    }
    message = read(written(Email(to="ann@example.org", text="x", headers=headers)))
    assert message.get_all("Message-ID") == ["<booking.42@example.org>"]
    assert message["Sender"].address.addr_spec == "org@example.org"
    assert message["Disposition-Notification-To"] == "ann@example.org"


def test_a_template_must_be_rendered_first() -> None:
    """Better no mail than an empty one."""
    with pytest.raises(InvalidRequest, match="template_id"):
        written(Email(to="ann@example.org", template_id="welcome"))


def test_bcc_is_never_written() -> None:
    """T21: the envelope knows; the message does not."""
    mail = Email(
        to="ann@example.org", cc="cy@example.org", bcc=["Eve <eve@secret.example>"], text="x"
    )
    data = written(mail)
    assert b"eve" not in data.lower()
    assert b"bcc" not in data.lower()


def test_the_sender_is_the_routes_and_not_the_callers() -> None:
    """T21: From is fixed by whoever calls `build`."""
    mail = Email(to="ann@example.org", sender="ceo@bank.example", text="x")
    assert read(written(mail))["From"] == "Desk <desk@example.org>"


def test_an_address_that_needs_smtputf8_stands_in_the_header_as_it_is() -> None:
    """T16: only such a message is not ASCII."""
    data = written(Email(to="Jürgen <jürgen@bücher.example>", text="ü", subject="ü"))
    assert "\r\nTo: =?utf-8?q?J=C3=BCrgen?= <jürgen@xn--bcher-kva.example>\r\n".encode() in data
    assert written(Email(to="Jürgen <j@bücher.example>", text="ü", subject="ü")).isascii()


@pytest.mark.parametrize("count", [2, 30, 100])
def test_many_recipients_are_folded(count: int) -> None:
    mail = Email(to=[f"Person {n} Ö <person.{n}@example.org>" for n in range(count)], text="x")
    data = written(mail)
    head = data.partition(b"\r\n\r\n")[0]
    assert max(map(len, head.split(b"\r\n"))) <= 78
    assert len(read(data)["To"].addresses) == count


@pytest.mark.parametrize(
    "subject",
    [
        "x" * 998,
        "word " * 199 + "end",
        "  spaces  around  ",
        "=?utf-8?q?Bcc:?=",
        "ä" * 500,
        "two  spaces, and a very long line that must be folded somewhere   with runs of spaces",
        "",
    ],
)
def test_a_subject_is_read_as_it_was_given(subject: str) -> None:
    data = written(Email(to="ann@example.org", subject=subject, text="x"))
    assert read(data)["Subject"] == subject
    assert max(map(len, data.split(b"\r\n"))) <= 998


def test_a_body_cannot_forge_a_boundary() -> None:
    """The boundary depends on the id, so a body may contain it; then another one is taken."""
    mail = Email(to="ann@example.org", text="x", html="<p>x</p>")
    boundary = read(written(mail)).get_boundary()
    assert boundary is not None
    forged = f"--{boundary}\nContent-Type: text/html\n\n<script>\n--{boundary}--\n"
    message = read(written(Email(to="ann@example.org", text=forged, html="<p>x</p>")))
    text, html = message.iter_parts()
    assert text.get_content().replace("\r\n", "\n") == forged
    assert html.get_content().strip() == "<p>x</p>"


def test_the_same_input_gives_the_same_bytes_and_another_id_other_boundaries() -> None:
    """R-016, M-007."""
    mail = validate_email(Email(to="ann@example.org", text="x", html="<p>x</p>"))
    args = {"date_ms": 1, "sender": "a@example.org"}
    one = build(mail, message_id="<1@example.org>", **args)  # type: ignore[arg-type]  # one dict of two types
    again = build(mail, message_id="<1@example.org>", **args)  # type: ignore[arg-type]  # as above
    two = build(mail, message_id="<2@example.org>", **args)  # type: ignore[arg-type]  # as above
    assert one == again
    assert read(one).get_boundary() != read(two).get_boundary()


@pytest.mark.parametrize(
    "message_id", ["", "1@example.org", "<1>", "<1@example.org>\r\nBcc: x@y.z", "<a b@c>", "<ä@b>"]
)
def test_a_message_id_is_checked_too(message_id: str) -> None:
    with pytest.raises(InvalidRequest, match="message_id"):
        build(Email(to="a@b.co", text="x"), message_id=message_id, date_ms=0, sender="a@b.co")
