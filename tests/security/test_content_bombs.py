"""T14, T15: large, deep and packed input costs no more than its size."""

import io
import subprocess
import sys
import zipfile

import pytest

from homing.content.mime import build
from homing.content.validation import validate_email
from homing.domain.errors import InvalidRequest
from homing.domain.message import Attachment, Email


def zip_bomb() -> bytes:
    """Ten files of 100 MB of zeros, packed once more: about 10 KB that would be a gigabyte."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(10 * 2**20))
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(100):
            archive.writestr(f"{number}.zip", inner.getvalue())
    return outer.getvalue()


def test_an_archive_is_never_unpacked() -> None:
    bomb = zip_bomb()
    mail = validate_email(
        Email(to="a@b.co", text="x", attachments=[Attachment("42.zip", bomb, "application/zip")])
    )
    data = build(mail, message_id="<1@b.co>", date_ms=0, sender="a@b.co")
    assert len(data) < 1.4 * len(bomb) + 2000


MEASURE = """
import resource
from homing.content.mime import build
from homing.content.validation import validate_email
from homing.domain.message import Attachment, Email

size = 25_000_000
file = Attachment("a.zip", bytes(size), "application/zip")
mail = Email(to="a@b.co", text="x", attachments=[file])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
data = build(validate_email(mail), message_id="<1@b.co>", date_ms=0, sender="a@b.co")
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
print(grown / size, len(data) / size)
"""


def test_a_large_file_costs_less_than_twice_its_size() -> None:
    """T15: the encoded message itself is 1.37 times the file. In a process of its own."""
    shown = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True
    ).stdout
    grown, encoded = map(float, shown.split())
    assert 1.3 < encoded < 1.4
    assert grown < 2


SEARCH = """
import resource, sys
from homing.content.limits import DEFAULT
from homing.content.attachments import check_attachments
from homing.domain.message import Attachment

begin, filler = b"content-type:", sys.argv[1].encode()
content = begin + filler * (4_000_000 // len(filler))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
check_attachments([Attachment("m.eml", content, "message/rfc822")], DEFAULT)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("filler", ["a", "\n ", "message", "content-type", "\ncontent-type "])
def test_searching_a_message_takes_no_memory(filler: str) -> None:
    """In a process of its own."""
    shown = subprocess.run(
        [sys.executable, "-c", SEARCH, filler], capture_output=True, text=True, check=True
    ).stdout
    assert int(shown) < 4_000  # KB: less than a copy would take


def test_a_body_that_speaks_of_messages_is_not_nested() -> None:
    content = b"Content-Type: text/plain\r\n\r\n message/rfc822\r\n" * 9
    attachment = Attachment("m.eml", content, "message/rfc822")
    validate_email(Email(to="a@b.co", text="x", attachments=[attachment]))


def nested(levels: int) -> bytes:
    content = b"Subject: innermost\r\n\r\nhello\r\n"
    for _ in range(levels - 1):
        content = b"Content-Type: message/rfc822\r\n\r\n" + content
    return content


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_messages_may_be_nested_three_deep(levels: int) -> None:
    attachment = Attachment("m.eml", nested(levels), "message/rfc822")
    validate_email(Email(to="a@b.co", text="x", attachments=[attachment]))


@pytest.mark.parametrize(
    "content",
    [
        nested(4),
        nested(5000),
        nested(4).replace(b"Content-Type: message", b"content-TYPE :\r\n\t message"),
        nested(4).replace(b"Content-Type: message", b"Content-Type: (a\r\n comment) message"),
        nested(4).replace(b"\r\n", b"\r"),
        b"Content-Type: multipart/digest; boundary=x\r\n\r\n" * 3,
        b"Content-Type: text/plain\r\n\r\n" * 10_001,
    ],
)
def test_deeper_messages_are_refused(content: bytes) -> None:
    attachment = Attachment("m.eml", content, "message/rfc822")
    with pytest.raises(InvalidRequest, match=r"attachments\[0\]\.content: is too large"):
        validate_email(Email(to="a@b.co", text="x", attachments=[attachment]))
