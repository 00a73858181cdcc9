"""A secret that was given to this process is left out of every text, whoever repeats it."""

import base64

import pytest

from homing.domain.known_secrets import MOST_EXPIRING, mask_login_response, mask_secret
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


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "user=ann\1auth=Bearer "])
@pytest.mark.parametrize("after", ["", "z", "zz", "\1\1"])
def test_one_inside_of_base64_is_left_out_wherever_it_begins(before: str, after: str) -> None:
    mask_secret(SECRET)
    encoded = base64.b64encode((before + SECRET + after).encode()).decode()
    shown = redact(f"no: {encoded}")
    assert "[redacted]" in shown
    # Characters that other bytes share may stay.
    inside = encoded[-(-len(before) * 8 // 6) : (len(before) + len(SECRET)) * 8 // 6]
    assert not any(inside[start : start + 4] in shown for start in range(len(inside) - 3))


LONG = "".join(f"{number:04}x" for number in range(400))


@pytest.mark.parametrize("text", [LONG[:500], f"{LONG[:300]}!", f"{LONG[:30]} {LONG[30:60]}\n"])
def test_a_part_of_a_long_one_is_left_out(text: str) -> None:
    """A reply line holds 512 bytes; a longer token is cut, or goes on in the next line."""
    mask_secret(LONG)
    assert redact(f"no: {text}").rstrip("!\\x0a") == "no: [redacted]"


def test_long_ones_that_begin_alike_leave_no_end_of_each_other() -> None:
    for end in ("one", "two", "three"):
        mask_secret(LONG + end, expires=True)
    assert redact(f"no: {LONG}two.") == "no: [redacted]."


def test_secrets_that_overlap_are_left_out_as_one() -> None:
    mask_secret("horse-battery")
    mask_secret("correct-horse")
    assert redact("is correct-horse-battery right?") == "is [redacted] right?"


def test_one_that_is_used_again_is_kept_longer() -> None:
    mask_secret("token-in-use", expires=True)
    for number in range(MOST_EXPIRING):
        mask_login_response(f"response{number:04}")
        mask_secret("token-in-use", expires=True)
    assert redact("token-in-use") == "[redacted]"
    assert redact("response0000 response0063==") == "response0000 [redacted]=="


def test_a_text_that_repeats_a_long_one_many_times_is_searched_once() -> None:
    mask_secret("a" * 16_000)
    assert redact("a" * 100_000 + " end", limit=20_000) == "[redacted] end"
