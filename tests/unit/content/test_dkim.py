"""Signatures: verified as a receiver does, over what really arrived."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dkim
import pytest

from homing.content.dkim import Key, Signer, read_key
from homing.content.mime import build
from homing.content.validation import validate_email
from homing.domain.delivery import Content, Delivery
from homing.domain.errors import SettingsError
from homing.domain.message import Attachment, Email
from homing.engine.work.steps import Packed, SendStep
from homing.providers.stub import StubProvider
from tests.unit.content.keys import dns, other_key, private_key

ORG = Key("example.org", "mail", private_key(0).encode())
COM = Key("example.com", "other", private_key(1, old_format=True).encode())
SIGN = Signer([ORG, COM])
LINK = "<https://example.org/u?id==?utf-8?q?x?=>"


def written(sender: str = "Desk <desk@example.org>", **fields: Any) -> bytes:
    mail = Email(**{"to": "ann@example.net", "subject": "Grüße", "text": "Hallo\n", **fields})
    return build(
        validate_email(mail), message_id="<1@example.org>", date_ms=1_700_000_000_000, sender=sender
    )


def is_good(data: bytes) -> bool:
    return bool(dkim.verify(data, dnsfunc=dns(mail=0, other=1)))


def tags(data: bytes) -> dict[str, str]:
    head = re.sub(r"\r\n\s+", " ", data.partition(b"\r\n\r\n")[0].decode("latin-1"))
    value = next(line for line in head.split("\r\n") if line.startswith("DKIM-Signature: "))
    pairs = (tag.strip().partition("=") for tag in value.partition(": ")[2].split(";"))
    return {name: content.replace(" ", "") for name, _, content in pairs}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"html": "<p>x</p>  \n\n\n", "text": ".\n..\n \n"},
        {"attachments": [Attachment("a", bytes(range(256)) * 40)], "html": "x"},
        {"to": "jürgen@example.net"},
        {"to": (), "bcc": "ann@example.net"},
        {"headers": {"List-Unsubscribe": LINK, "References": "<a@b> " * 30 + "<c@d>"}},
    ],
)
def test_a_receiver_finds_the_signature_good(fields: dict[str, Any]) -> None:
    data = SIGN(written(**fields))
    assert data.endswith(written(**fields))
    assert is_good(data)
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n", data)


@pytest.mark.parametrize(
    ("sender", "domain"),
    [
        ("a@example.org", "example.org"),
        ('"x@example.net" <a@news.example.org>', "example.org"),
        ("a@example.com", "example.com"),
        (f"{'Long Name ' * 12} <a@example.com>", "example.com"),
        ("a@example.net", None),
        ("a@myexample.org", None),
        ('"a@example.org" <a@example.net>', None),
    ],
)
def test_the_domain_of_the_from_decides(sender: str, domain: str | None) -> None:
    data = SIGN(written(sender))
    if domain is None:
        assert data == written(sender)
    else:
        assert (tags(data)["d"], tags(data)["a"]) == (domain, "rsa-sha256")
        assert is_good(data)


@pytest.mark.parametrize(
    "header",
    ["From: eve@example.org", "Subject: other", "To: eve@example.net", "Reply-To: eve@evil.example",
     "Cc: eve@example.net", "Content-Type: text/html"],
)  # fmt: skip
def test_nothing_can_be_added_to_a_signed_mail(header: str) -> None:
    data = SIGN(written())
    assert not is_good(header.encode() + b"\r\n" + data)
    assert is_good(b"Received: from a by b\r\n" + data)


def test_what_one_click_unsubscribe_needs_is_signed() -> None:
    headers = {"List-Unsubscribe": LINK, "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}
    data = SIGN(written(headers=headers))
    assert {"list-unsubscribe", "list-unsubscribe-post"} <= set(tags(data)["h"].split(":"))
    assert not is_good(data.replace(b"u?id=", b"u?ID="))


def test_the_signature_covers_the_notice_of_a_possible_duplicate() -> None:
    """And what is stored is the mail itself, so that a later attempt is signed anew."""
    step = SendStep(
        StubProvider(),
        lambda delivery, content: written(),
        compose_duplicate=lambda delivery, content: written(text="Maybe again: Hallo\n"),
        sign=SIGN,
    )
    delivery = Delivery(
        id="1",
        route="mail",
        queue="mail",
        stage="send",
        created_at_ms=0,
        updated_at_ms=0,
        maybe_duplicate=True,
    )
    packed = step.pack(delivery, Content(b""))
    assert isinstance(packed, Packed)
    assert b"Maybe again" in packed.envelope.data
    assert is_good(packed.envelope.data)
    assert list(packed.to_store.values()) == [written()]


def test_all_that_is_signed_is_packed_in_a_thread() -> None:
    """A signature takes milliseconds, and a batch has many."""
    step = SendStep(StubProvider(), lambda delivery, content: written(), sign=SIGN)
    assert step.slow is not None
    assert step.slow(
        Delivery(id="1", route="m", queue="m", stage="s", created_at_ms=0, updated_at_ms=0)
    )


def test_a_key_is_read_in_either_format(tmp_path: Path) -> None:
    for text in (private_key(), private_key(old_format=True), private_key().replace("\n", "\r\n")):
        (tmp_path / "key").write_bytes(text.encode())
        signer = Signer([read_key("example.org", "mail", str(tmp_path / "key"))])
        assert is_good(signer(written()))


@pytest.mark.parametrize(
    ("domain", "selector", "text", "problem"),
    [
        ("Example.org", "mail", None, "dkim.Example.org: write the domain in ASCII"),
        ("example", "mail", None, "dkim.example: has a domain without a dot"),
        ("example.org", "", None, "dkim.example.org.selector: "),
        ("example.org", "mail", "", "not an RSA private key"),
        ("example.org", "mail", "-----BEGIN X-----\nAAAA\n-----END X-----\n", "not an RSA private"),
        ("example.org", "mail", private_key(bits=1024)[:300], "not an RSA private key"),
        ("example.org", "mail", other_key("ed25519"), "not an RSA private key"),
        ("example.org", "mail", other_key("ec"), "not an RSA private key"),
        ("example.org", "mail", other_key("public"), "not an RSA private key"),
        ("example.org", "mail", other_key("encrypted"), "not an RSA private key"),
    ],
)
def test_a_wrong_key_stops_the_start(
    tmp_path: Path, domain: str, selector: str, text: str | None, problem: str
) -> None:
    path = tmp_path / "key"
    path.write_text(private_key() if text is None else text)
    with pytest.raises(SettingsError) as refusal:
        read_key(domain, selector, str(path))
    assert problem in str(refusal.value)
