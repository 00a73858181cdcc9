"""Our writer against the standard library: it reads from our bytes what it would have built.

T1: a reader finds exactly the headers that were meant. R-016: the same input, the same bytes.
"""

import email.parser
import email.policy
import re
from email.header import decode_header, make_header
from email.headerregistry import Address as LibraryAddress
from email.message import EmailMessage, MIMEPart

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from homing.content.addresses import parse
from homing.content.mime import build
from homing.content.validation import validate_email
from homing.domain.message import Attachment, Email, Invitation

MESSAGE_ID = "<0123456789abcdef@example.org>"
DATE_MS = 1_700_000_000_123
DATE = "Tue, 14 Nov 2023 22:13:20 +0000"
SENDER = "Homing Örg <no-reply@example.org>"

# Letters of several scripts, wide and narrow, and everything that means something in a header.
LETTERS = "abcXYZ019 .,;:!?=_-+*/()[]<>@\"'\\%&#~äöüßéñ漢字カナабвпривет🙂👩\u200d🚀\u0627\u0301"
words = st.text(alphabet=LETTERS, max_size=120)
lines = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=80)
bodies = st.lists(
    st.one_of(
        words, lines, st.sampled_from([".", "..", "From me", "=", "x" * 1200, "\t", "a  ", "ä"])
    ),
    max_size=12,
).map("\n".join)
raw_bodies = st.one_of(
    bodies, st.text(alphabet="ab\r\n\t\x01\x0b\x0c\x1c\x85\u2028.ä ", max_size=60)
)

locals_ = st.from_regex(r"[a-z0-9]{1,12}(\.[a-z0-9+_-]{1,12})?", fullmatch=True)
hosts = st.sampled_from(
    ["example.org", "mail.example.com", "bücher.example", "xn--bcher-kva.example"]
)
names = st.text(alphabet=LETTERS.replace('"', "").replace("\\", ""), max_size=60)


@st.composite
def people(draw: st.DrawFn) -> str:
    spec = f"{draw(locals_)}@{draw(hosts)}"
    name = draw(st.one_of(st.just(""), names)).strip()
    return f'"{name}" <{spec}>' if name else spec


custom_headers = st.dictionaries(
    st.sampled_from(["X-Booking", "X-Long-Name-Of-A-Header-Of-Ours", "Comments", "x-lower"]),
    st.one_of(words, st.text(alphabet="ab ", min_size=1, max_size=400)).map(str.strip).filter(bool),
    max_size=3,
)
file_names = st.text(alphabet="abcä漢🙂 .-_%'\";()=?", min_size=1, max_size=40).filter(
    lambda name: name.strip(" .") != "" and name == name.strip(" ")
)
files = st.builds(
    Attachment,
    filename=file_names,
    content=st.binary(max_size=300),
    content_type=st.sampled_from(
        ["application/pdf", "image/png", "text/csv; charset=utf-8", "application/octet-stream"]
    ),
)
ICS = (
    "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\nUID:1\r\n{}"
    "END:VEVENT\r\nEND:VCALENDAR\r\n"
)
invitations = st.sampled_from(
    [None, Invitation(ICS.format("")), Invitation(ICS.format("SUMMARY:Träume\r\n"), "REQUEST")]
)


@st.composite
def emails(draw: st.DrawFn) -> Email:
    return validate_email(
        Email(
            to=draw(st.lists(people(), min_size=1, max_size=6)),
            cc=draw(st.lists(people(), max_size=2)),
            bcc=draw(st.lists(people(), max_size=2)),
            reply_to=draw(st.lists(people(), max_size=1)),
            subject=draw(words),
            text=draw(raw_bodies) or "x",
            html=draw(st.one_of(st.none(), bodies)),
            headers=draw(custom_headers),
            attachments=draw(st.lists(files, max_size=2)),
            invitation=draw(invitations),
        )
    )


def read(data: bytes) -> EmailMessage:
    message = email.parser.BytesParser(policy=email.policy.default).parsebytes(data)
    assert isinstance(message, EmailMessage)
    return message


def built_by_library(mail: Email) -> EmailMessage:
    """The same mail as the standard library holds it. Not written out and read back: its own
    writer (3.11) loses addresses when it folds a long list with an encoded name."""
    message = EmailMessage(policy=email.policy.SMTP)
    message["From"] = library_address(SENDER)
    message["To"] = [library_address(address) for address in mail.to]
    if mail.cc:
        message["Cc"] = [library_address(address) for address in mail.cc]
    if mail.reply_to:
        message["Reply-To"] = [library_address(address) for address in mail.reply_to]
    message["Date"] = DATE
    message["Message-ID"] = MESSAGE_ID
    message.set_content(mail.text)
    if mail.html is not None:
        message.add_alternative(mail.html, subtype="html")
    if mail.invitation is not None:
        message.add_alternative(
            mail.invitation.ics, subtype="calendar", params={"method": mail.invitation.method}
        )
        message.add_attachment(
            mail.invitation.ics.encode(), "application", "ics", filename="invite.ics"
        )
    for file in mail.attachments:
        kind, _, rest = file.content_type.partition("/")
        subtype, _, charset = rest.partition("; charset=")
        message.add_attachment(
            file.content,
            kind,
            subtype,
            filename=file.filename,
            params={"charset": charset} if charset else None,
        )
    return message


def library_address(text: str) -> LibraryAddress:
    address = parse(text)
    return LibraryAddress(address.name, addr_spec=address.spec)


def structure(part: MIMEPart) -> object:
    """Types, names and decoded contents of all parts, as a reader sees them."""
    if part.is_multipart():
        children = [structure(child) for child in part.iter_parts()]
        return (part.get_content_type(), children)
    content = part.get_content()
    if isinstance(content, str):  # a line is a line, however it ends
        content = content.replace("\r\n", "\n")
    parameters = dict(part["Content-Type"].params)
    return (part.get_content_type(), parameters, part.get_filename(), content)


def intended_headers(mail: Email) -> list[str]:
    names = ["From", "To"]
    names += ["Cc"] if mail.cc else []
    names += ["Reply-To"] if mail.reply_to else []
    return [*names, "Subject", "Date", "Message-ID", *mail.headers, "MIME-Version", "Content-Type"]


def decoded(raw: str) -> str:
    """RFC 2047 by the older of the library's two decoders, which is right about adjacent words."""
    return str(make_header(decode_header(raw)))


def raw_header(data: bytes, name: str) -> str:
    head = data.partition(b"\r\n\r\n")[0].decode()
    unfolded = re.sub(r"\r\n(?=[ \t])", "", head).split("\r\n")
    (value,) = (line.removeprefix(f"{name}: ") for line in unfolded if line.startswith(f"{name}:"))
    return value


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(emails())
def test_the_library_reads_what_it_would_have_built(mail: Email) -> None:
    data = build(mail, message_id=MESSAGE_ID, date_ms=DATE_MS, sender=SENDER)
    ours, theirs = read(data), built_by_library(mail)

    assert not ours.defects
    for name in ("From", "To", "Cc", "Reply-To"):
        mine, other = ours[name], theirs[name]
        assert (mine is None) == (other is None)
        if mine is not None:
            assert [a.addr_spec for a in mine.addresses] == [a.addr_spec for a in other.addresses]
    assert ours["Date"].datetime == theirs["Date"].datetime
    assert ours["Message-ID"] == theirs["Message-ID"] == MESSAGE_ID
    assert structure(ours) == structure(theirs)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(emails())
def test_a_reader_finds_exactly_the_headers_that_were_meant(mail: Email) -> None:
    data = build(mail, message_id=MESSAGE_ID, date_ms=DATE_MS, sender=SENDER)
    message = read(data)

    found = [name for name in message if name != "Content-Transfer-Encoding"]
    assert found == intended_headers(mail)
    assert decoded(raw_header(data, "Subject")) == mail.subject
    for name, value in mail.headers.items():
        assert decoded(raw_header(data, name)) == value
    for field, given_addresses in (("To", mail.to), ("Cc", mail.cc), ("Reply-To", mail.reply_to)):
        if given_addresses:
            shown = [parse(address).name for address in given_addresses]
            assert [handler_names(a) for a in split_addresses(raw_header(data, field))] == shown


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(emails())
def test_every_line_can_travel(mail: Email) -> None:
    """T3: lines end with CRLF and nothing else does; none is longer than a server must take."""
    data = build(mail, message_id=MESSAGE_ID, date_ms=DATE_MS, sender=SENDER)

    assert data.isascii()
    assert b"\x00" not in data
    assert data.endswith(b"\r\n")
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n", data)
    assert max(map(len, data.split(b"\r\n"))) <= 998
    assert build(mail, message_id=MESSAGE_ID, date_ms=DATE_MS, sender=SENDER) == data


def split_addresses(value: str) -> list[str]:
    """At the commas outside quotes."""
    return re.findall(r'\s*((?:"(?:[^"\\]|\\.)*"|[^,"])+)', value)


def handler_names(address: str) -> str:
    phrase = address.strip().rpartition("<")[0].strip()
    if phrase.startswith('"'):
        return re.sub(r"\\(.)", r"\1", phrase[1:-1])
    return decoded(phrase)
