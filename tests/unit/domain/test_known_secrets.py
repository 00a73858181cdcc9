"""A secret that was given to this process is left out of every text, whoever repeats it."""

import base64

import pytest

from homing.domain.known_secrets import MOST_EXPIRING, mask_secret
from homing.domain.redaction import redact, redact_trace

SECRET = "correct horse (4711)"


@pytest.mark.parametrize(
    "text",
    [
        f"{SECRET} is wrong",
        f"you said{SECRET}, or not",
        f"535 {base64.b64encode(SECRET.encode()).decode()} is wrong",
    ],
)
def test_a_known_secret_is_left_out_wherever_it_stands(text: str) -> None:
    mask_secret(SECRET)
    for shown in (redact(text), redact_trace(text)):
        assert "[redacted]" in shown
        assert "4711" not in shown
        assert "NDcxM" not in shown


def test_an_unknown_one_is_not() -> None:
    assert redact("a correct horse") == "a correct horse"


def test_a_short_one_is_left_out_where_it_stands_alone() -> None:
    mask_secret("pw")
    assert redact("pw: no, httpwise") == "[redacted]: no, httpwise"


def test_one_that_begins_like_another_does_not_leave_its_end() -> None:
    mask_secret("hunter")
    mask_secret("hunter22")
    assert redact("is hunter22 right?") == "is [redacted] right?"


def test_an_empty_one_changes_nothing() -> None:
    mask_secret("")
    assert redact("quiet") == "quiet"


def test_of_those_that_expire_the_newest_are_kept_and_no_other_is_lost() -> None:
    mask_secret(SECRET)
    for number in range(MOST_EXPIRING + 1):
        mask_secret(f"token-{number:04}-", expires=True)
    assert redact(f"token-{MOST_EXPIRING:04}- x") == "[redacted] x"
    assert redact("token-0000- x") == "token-0000- x"
    assert redact(f"{SECRET} x") == "[redacted] x"
