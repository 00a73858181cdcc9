"""From the greeting to a secured session, without a socket."""

import pytest

from homing.providers.smtp.features import Features
from homing.providers.smtp.handshake import handshake
from homing.providers.smtp.replies import ReplyParser
from homing.providers.smtp.steps import Refused, Say, StartTls
from homing.providers.smtp.url import Tls


def play(tls: Tls, *replies: str) -> tuple[list[bytes], Features]:
    """What is said to these replies; TLS starts at its own step and is answered by nothing."""
    parser = ReplyParser()
    answers = [reply for text in replies for reply in parser.feed(text.encode() + b"\r\n")]
    steps = handshake(helo="me.test", tls=tls)
    said: list[bytes] = []
    step = next(steps)
    while True:
        try:
            if isinstance(step, Say):
                said.append(step.line)
                step = steps.send(answers.pop(0))
            else:
                assert isinstance(step, StartTls)
                said.append(b"<TLS>")
                step = next(steps)
        except StopIteration as end:
            assert not answers
            return said, end.value


def test_starttls_then_ehlo_again() -> None:
    """M-179: what was offered in the clear is forgotten."""
    said, features = play(
        "starttls",
        "220 hi",
        "250-x\r\n250-STARTTLS\r\n250 AUTH LOGIN",
        "220 go",
        "250-x\r\n250-PIPELINING\r\n250 AUTH PLAIN",
    )
    ehlo = b"EHLO me.test\r\n"
    assert said == [b"", ehlo, b"STARTTLS\r\n", b"<TLS>", ehlo]
    assert features.pipelining
    assert features.auth == {"PLAIN"}


def test_without_tls_it_ends_with_ehlo() -> None:
    said, _ = play("none", "220 hi", "250-x\r\n250 AUTH PLAIN")
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
    ],
)
def test_where_a_handshake_can_end(phase: str, replies: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        play("starttls", *replies)
    assert refused.value.phase == phase
