"""URLs into settings; whatever is wrong names itself and shows no secret."""

from pathlib import Path
from typing import Any

import pytest
import trustme

from homing.domain.errors import SettingsError
from homing.domain.redaction import redact
from homing.providers.smtp import SmtpProvider, parse_url
from homing.providers.smtp.options import OPTIONS


def test_the_safe_way_is_the_default() -> None:
    settings = parse_url("smtp://ann:secret@mail.example.org")
    assert (settings.tls, settings.verify, settings.port) == ("starttls", True, 587)
    assert settings.dot_timeout_s == 600
    assert settings.pool_size == 8
    assert settings.warnings == ()


def test_implicit_tls_and_ports() -> None:
    assert parse_url("smtps://mail.example.org").port == 465
    assert parse_url("smtps://mail.example.org").tls == "implicit"
    assert parse_url("smtp://mail.example.org:2525").port == 2525
    assert parse_url("smtp://localhost?tls=none").port == 25


def test_user_and_password_are_percent_decoded() -> None:
    credentials = parse_url("smtp://ann%40example.org:p%2Fw%3A%25@mail.example.org").credentials
    assert credentials is not None
    assert (credentials.user, credentials.password) == ("ann@example.org", "p/w:%")


@pytest.mark.parametrize("login", ["ann@", ":secret@", "ann:@"])
def test_login_needs_both_user_and_password(login: str) -> None:
    """M-181: with only one of the two there is no AUTH."""
    settings = parse_url(f"smtp://{login}mail.example.org")
    assert settings.credentials is None
    assert "no login" in settings.warnings[0]


# A value for every option, what becomes of it, and what else it needs.
SAMPLES: dict[str, tuple[str, Any, str]] = {
    "tls": ("none", "none", "localhost"),
    "verify": ("off", False, "mail.example.org"),
    "ca_file": ("/x.pem", "/x.pem", "mail.example.org"),
    "client_cert": ("/x.pem", "/x.pem", "mail.example.org"),
    "client_key": ("/x.key", "/x.key", "mail.example.org?client_cert=/x.pem"),
    "plaintext_host": ("mailpit", "mailpit", "mailpit?tls=none"),
    "auth": ("plain", "PLAIN", "ann:secret@mail.example.org"),
    "token": ("ya29.x", "ya29.x", "ann@mail.example.org"),
    "token_file": ("/x.token", Path("/x.token"), "ann@mail.example.org"),
    "helo": ("me.example.org", "me.example.org", "mail.example.org"),
    "sender": ("a@example.org", "a@example.org", "mail.example.org"),
    "pool": ("3", 3, "mail.example.org"),
    "messages_per_connection": ("7", 7, "mail.example.org"),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_has_its_field_and_its_effect(option: str) -> None:
    value, expected, place = SAMPLES.get(option, ("1.5", 1.5, "mail.example.org"))
    settings = parse_url(f"smtp://{place}{'&' if '?' in place else '?'}{option}={value}")
    field = OPTIONS[option][0]
    assert getattr(settings.credentials if field == "token" else settings, field) == expected


@pytest.mark.parametrize(
    ("url", "setting"),
    [
        ("smtp://mail.example.org?tls=none", "tls"),
        ("smtp://127.0.0.1.example.org?tls=none", "tls"),
        ("smtp://mail.example.org?tls=maybe", "tls"),
        ("smtp://mail.example.org?tls=implicit", "tls"),
        ("smtps://mail.example.org?tls=starttls", "tls"),
        ("smtps://localhost?tls=none", "tls"),
        ("smtp://mail.example.org?verify=no", "verify"),
        ("smtp://mail.example.org?verfy=off", "verfy"),
        ("smtp://mail.example.org?pool=0", "pool"),
        ("smtp://mail.example.org?pool=1e3", "pool"),
        ("smtp://mail.example.org?pool=2&pool=3", "pool"),
        ("smtp://mail.example.org?dot_timeout_s=0", "dot_timeout_s"),
        ("smtp://mail.example.org?dot_timeout_s=nan", "dot_timeout_s"),
        ("smtp://mail.example.org?dot_timeout_s=inf", "dot_timeout_s"),
        ("smtp://mail.example.org?connect_timeout_s=soon", "connect_timeout_s"),
        ("smtp://mail.example.org?helo=a%0d%0ab", "helo"),
        ("smtp://mail.example.org?sender=nobody", "sender"),
        ("smtp://mail.example.org?ca_file=", "ca_file"),
        ("smtp://mail.example.org?client_cert=", "client_cert"),
        ("smtp://mail.example.org?client_key=/x", "client_key"),
        ("smtp://localhost?tls=none&client_cert=/x", "client_cert"),
        ("smtp://mailpit?tls=none&plaintext_host=other", "tls"),
        ("smtp://mailpit?plaintext_host=mailpit", "plaintext_host"),
        ("smtp://localhost?tls=none&plaintext_host=localhost", "plaintext_host"),
        ("smtp://mailpit?tls=none&plaintext_host=", "plaintext_host"),
        ("smtp://ann:secret@mailpit?tls=none&plaintext_host=mailpit", "tls"),
        ("smtps://mailpit?tls=none&plaintext_host=mailpit", "tls"),
        ("smtp://ann:secret@mail.example.org?auth=ntlm", "auth"),
        ("smtp://ann:secret@mail.example.org?auth=xoauth2", "auth"),
        ("smtp://ann@mail.example.org?auth=plain", "auth"),
        ("smtp://ann@mail.example.org?auth=plain&token=x", "auth"),
        ("smtp://mail.example.org?auth=external", "auth"),
        ("smtp://ann:secret@mail.example.org?auth=external&client_cert=/x", "auth"),
        ("smtp://mail.example.org?token=x", "token"),
        ("smtp://ann:secret@mail.example.org?token=x", "token"),
        ("smtp://ann@mail.example.org?token=x&token_file=/x", "token_file"),
        ("smtp://ann@mail.example.org?token=a+b", "token"),
        ("smtp://ann@mail.example.org?token=a%0d%0ab", "token"),
        ("smtp://ann@mail.example.org?token_file=", "token_file"),
        ("smtp://u:p%01@mail.example.org", "provider"),
        ("smtp://", "provider"),
        ("smtp://[::1", "provider"),
        ("smtp:///path", "provider"),
        ("smtp://mail.example.org/inbox", "provider"),
        ("smtp://mail.example.org#x", "provider"),
        ("smtp://mail.example.org:0", "provider"),
        ("smtp://mail.example.org:99999", "provider"),
        ("smtp://mail.example.org:smtp", "provider"),
        ("smtp://bücher.example", "provider"),
        ("smtp://mail example.org", "provider"),
        ("smtp://mail.example.org\n", "provider"),
        ("smtp://u:p%00@mail.example.org", "provider"),
        ("http://mail.example.org", "provider"),
    ],
)
def test_a_wrong_url_names_what_is_wrong(url: str, setting: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        parse_url(url)
    assert refusal.value.setting == setting


def test_a_password_that_breaks_the_url_is_not_shown() -> None:
    for url in (
        "smtp://ann:hush/hush@mail.example.org",
        "smtp://ann:hush\u2100@mail.example.org",
        "smtp://ann:x?hush@mail.example.org",
        "smtp://ann:x?hush=1@mail.example.org?verify=off&sender=a@example.org",
        "smtp://ann@mail.example.org?token=hush%20hush",
    ):
        with pytest.raises(SettingsError) as refusal:
            parse_url(url)
        assert "hush" not in str(refusal.value)
        assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.10", "[::1]"])
def test_plain_text_is_for_loopback(host: str) -> None:
    assert parse_url(f"smtp://{host}?tls=none").tls == "none"


def test_verify_off_is_a_consent_that_is_shown() -> None:
    """T5: it works, and whoever runs `doctor` is told."""
    smtp = SmtpProvider.from_url("smtp://mail.example.org?verify=off")
    assert any("verify=off" in warning for warning in smtp.warnings)


def test_a_certificate_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    broken = tmp_path / "ca.pem"
    broken.write_text("no certificate")
    for path in (broken, tmp_path / "missing.pem"):
        with pytest.raises(SettingsError) as refusal:
            SmtpProvider.from_url(f"smtp://mail.example.org?ca_file={path}")
        assert refusal.value.setting == "ca_file"


def test_a_client_certificate_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    leaf = trustme.CA().issue_cert("shop.example.org")
    leaf.private_key_pem.write_to_path(tmp_path / "key.pem")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    trustme.CA().private_key_pem.write_to_path(tmp_path / "other.pem")
    for rest in ("cert.pem", "missing.pem", f"cert.pem&client_key={tmp_path}/other.pem"):
        with pytest.raises(SettingsError) as refusal:
            SmtpProvider.from_url(f"smtp://mail.example.org?client_cert={tmp_path}/{rest}")
        assert refusal.value.setting == "client_cert"


def test_plain_text_to_another_machine_is_a_consent_that_is_shown() -> None:
    smtp = SmtpProvider.from_url("smtp://mailpit:1025?tls=none&plaintext_host=mailpit")
    assert smtp.settings.tls == "none"
    assert not smtp.stays_local
    assert smtp.warnings == ("tls=none: mail to mailpit is sent in the clear",)


def test_secrets_are_in_no_repr() -> None:
    settings = parse_url("smtp://ann:hush-hush@mail.example.org")
    assert "hush" not in repr(settings)
    assert "ann" not in repr(settings.credentials)
    assert "ya29" not in repr(parse_url("smtp://ann@mail.example.org?token=ya29.x"))


@pytest.mark.parametrize("url", ["smtp://ann:h%2Fush@mail.example.org", "smtp://a@b?token=h/ush"])
def test_the_secrets_of_a_url_are_left_out_of_every_text_that_is_kept(url: str) -> None:
    parse_url(url)
    assert redact("the server says h/ush is wrong") == "the server says [redacted] is wrong"


def test_a_function_gives_the_token() -> None:
    credentials = parse_url("smtp://ann@mail.example.org", token=lambda: "t").credentials
    assert credentials is not None
    assert credentials.takes == "token"
    with pytest.raises(SettingsError, match="token"):
        parse_url("smtp://ann@mail.example.org?token=x", token=lambda: "t")


def test_a_user_that_is_an_address_is_the_default_sender() -> None:
    smtp = SmtpProvider.from_url("smtp://ann%40example.org:x@mail.example.org")
    assert smtp.sender == "ann@example.org"
    assert SmtpProvider.from_url("smtp://ann:x@mail.example.org").sender is None
