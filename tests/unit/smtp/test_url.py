"""URLs into settings; whatever is wrong names itself and shows no secret."""

from pathlib import Path

import pytest

from homing.domain.errors import SettingsError
from homing.providers.smtp import SmtpProvider, SmtpSettings, parse_url
from homing.providers.smtp.url import OPTIONS


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


def test_every_option_has_its_field_and_its_effect() -> None:
    samples = {
        "tls": "starttls",
        "verify": "off",
        "ca_file": "/x.pem",
        "helo": "me.example.org",
        "sender": "a@example.org",
        "pool": "3",
        "messages_per_connection": "7",
    }
    for option, (field, _) in OPTIONS.items():
        value = samples.get(option, "1.5")
        settings = parse_url(f"smtp://mail.example.org?{option}={value}")
        assert field in SmtpSettings.__struct_fields__
        expected = {"off": False, "3": 3, "7": 7, "1.5": 1.5}.get(value, value)
        assert getattr(settings, field) == expected


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
    for url in ("smtp://ann:hush/hush@mail.example.org", "smtp://ann:hush\u2100@mail.example.org"):
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


def test_secrets_are_in_no_repr() -> None:
    settings = parse_url("smtp://ann:hush-hush@mail.example.org")
    assert "hush" not in repr(settings)
    assert "ann" not in repr(settings.credentials)


def test_a_user_that_is_an_address_is_the_default_sender() -> None:
    smtp = SmtpProvider.from_url("smtp://ann%40example.org:x@mail.example.org")
    assert smtp.sender == "ann@example.org"
    assert SmtpProvider.from_url("smtp://ann:x@mail.example.org").sender is None
