"""What is shown of a setting holds no secret, however oddly it is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homing.settings.masking import masked, shown


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("sqlite:///homing.db", "sqlite:///homing.db"),
        ("sqlite:////var/lib/x.db", "sqlite:////var/lib/x.db"),
        ("memory:", "memory:"),
        ("stub:?script=503,202&ledger=l.jsonl", "stub:?script=503,202&ledger=l.jsonl"),
        ("smtp://host:587", "smtp://host:587"),
        ("smtp://ann:SECRET@host:587", "smtp://***@host:587"),
        ("smtp://SECRET@host", "smtp://***@host"),
        ("smtp://:SECRET@host", "smtp://***@host"),
        ("smtp://ann:SECRET@[::1]:25?tls=none", "smtp://***@[::1]:25?tls=none"),
        ("smtp://ann:SEC@RET@host?verify=off", "smtp://***@host?verify=off"),
        ("smtp://ann:SEC/RET@host", "smtp://***@host"),
        ("smtp://ann:SEC#RET@host", "smtp://***@host"),
        ("smtp://ann:SEC?RET@host", "smtp://***@host"),
        ("smtp://ann:SEC@x?RET@host", "smtp://***@host"),
        ("smtp://ann:SECRET?sender=x@host", "smtp://***"),
        ("smtp://ann:SECRET", "smtp://***"),
        ("smtp:ann:SECRET@host", "smtp:***@host"),
        ("ann:SECRET@host", "ann:***@host"),
        ("SECRET@host", "***"),
        ("SMTPS://ANN:SECRET@HOST", "SMTPS://***@HOST"),
        ("smtp://ann:SEC RET@host", "smtp://***@host"),
        ("smtp://h?sender=a@b.c&password=SECRET", "smtp://h?sender=a@b.c&password=***"),
        ("postgresql://u:SECRET@h/db?sslpassword=SECRET", "postgresql://***@h/db?sslpassword=***"),
        ("redis://:SECRET@h:6379/0", "redis://***@h:6379/0"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, safe: str) -> None:
    assert masked(url) == safe


@given(
    st.text("SECRET/?#@:&=%[] .", min_size=1),
    st.sampled_from(["", "?tls=none", "?sender=a@b.c", "/"]),
)
def test_no_password_of_any_shape_is_shown(password: str, tail: str) -> None:
    # Around it stand letters that occur nowhere else: if any is left, so is some of the secret.
    assert "Q" not in masked(f"smtp://ann:Q{password}Q@host{tail}")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("sender", None, "-"),
        ("telemetry.prometheus", True, "true"),
        ("telemetry.sentry_dsn", "https://abc@sentry.example.org/1", "***"),
        ("routes.mail.retry.ladder", ("1s", "2s"), "1s, 2s"),
        ("server.port", 8025, "8025"),
    ],
)
def test_values_are_shown_for_people(name: str, value: object, text: str) -> None:
    assert shown(name, value) == text


def test_the_sender_is_no_secret() -> None:
    """An address looks like a login with its @."""
    assert shown("sender", "Shop <shop@example.org>") == "Shop <shop@example.org>"
