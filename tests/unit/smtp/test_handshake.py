"""From greeting to login, without a socket."""

import base64

import pytest

from homing.providers.smtp.features import Features
from homing.providers.smtp.handshake import Refused, Say, StartTls, handshake
from homing.providers.smtp.replies import ReplyParser
from homing.providers.smtp.url import Credentials, Tls

LOGIN = Credentials("ann", "pass word")
PLAIN = base64.b64encode(b"\0ann\0pass word")


def play(tls: Tls, credentials: Credentials | None, *replies: str) -> tuple[list[bytes], Features]:
    """What is said to these replies; TLS starts at its own step and is answered by nothing."""
    parser = ReplyParser()
    answers = [reply for text in replies for reply in parser.feed(text.encode() + b"\r\n")]
    steps = handshake(helo="me.test", tls=tls, credentials=credentials)
    said: list[bytes] = []
    answer = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            assert not answers
            return said, end.value
        if isinstance(step, Say):
            said.append(step.line)
            answer = answers.pop(0)
        else:
            assert isinstance(step, StartTls)
            said.append(b"<TLS>")
            answer = None


def test_starttls_then_ehlo_again_then_login() -> None:
    """M-179: STARTTLS stands before AUTH, and what was offered in the clear is forgotten."""
    said, features = play(
        "starttls",
        LOGIN,
        "220 hi",
        "250-x\r\n250-STARTTLS\r\n250 AUTH LOGIN",
        "220 go",
        "250-x\r\n250-PIPELINING\r\n250 AUTH PLAIN LOGIN",
        "235 in",
    )
    ehlo = b"EHLO me.test\r\n"
    assert said == [b"", ehlo, b"STARTTLS\r\n", b"<TLS>", ehlo, b"AUTH PLAIN " + PLAIN + b"\r\n"]
    assert features.pipelining


def test_login_in_two_steps_where_plain_is_not_offered() -> None:
    said, _ = play(
        "implicit", LOGIN, "220 hi", "250-x\r\n250 AUTH LOGIN", "334 user", "334 word", "235 in"
    )
    assert said[2:] == [
        b"AUTH LOGIN\r\n",
        base64.b64encode(b"ann") + b"\r\n",
        base64.b64encode(b"pass word") + b"\r\n",
    ]


def test_without_credentials_there_is_no_login() -> None:
    said, _ = play("none", None, "220 hi", "250-x\r\n250 AUTH PLAIN")
    assert said == [b"", b"EHLO me.test\r\n"]


@pytest.mark.parametrize(
    ("phase", "replies"),
    [
        ("connect", ["554 5.7.1 not you"]),
        ("connect", ["421 4.3.2 full"]),
        ("connect", ["220 hi", "554 no"]),
        ("connect", ["220 hi", "502 what", "550 no"]),
        ("tls", ["220 hi", "250 x"]),
        ("tls", ["220 hi", "502 what", "250 x"]),
        ("tls", ["220 hi", "250-x\r\n250 STARTTLS", "454 4.7.0 not now"]),
        ("auth", ["220 hi", "250-x\r\n250 STARTTLS", "220 go", "250 x"]),
        ("auth", ["220 hi", "250-x\r\n250 STARTTLS", "220 go", "250-x\r\n250 AUTH NTLM"]),
        (
            "auth",
            ["220 hi", "250-x\r\n250 STARTTLS", "220 go", "250-x\r\n250 AUTH PLAIN", "535 no"],
        ),
        (
            "auth",
            ["220 hi", "250-x\r\n250 STARTTLS", "220 go", "250-x\r\n250 AUTH LOGIN", "535 no"],
        ),
    ],
)
def test_where_a_handshake_can_end(phase: str, replies: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        play("starttls", LOGIN, *replies)
    assert refused.value.phase == phase
