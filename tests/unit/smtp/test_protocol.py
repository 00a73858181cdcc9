"""The protocol core alone: bytes in, bytes and answers out."""

from homing.domain.failure import Failure
from homing.ports import Accepted
from homing.providers.smtp.classification import judge
from homing.providers.smtp.exchange import Exchange
from homing.providers.smtp.protocol import HOLD_DOT_ABOVE_BYTES, Dialogue

MAIL, ANN, BOB, DATA = (
    b"MAIL FROM:<s@x>\r\n",
    b"RCPT TO:<ann@x>\r\n",
    b"RCPT TO:<bob@x>\r\n",
    b"DATA\r\n",
)
NAMES = ("ann@x", "bob@x")


def exchange(content: bytes = b"Hello\r\n") -> Exchange:
    return Exchange((MAIL, ANN, BOB, DATA), content)


def begun(*, pipelining: bool = True, content: bytes = b"Hello\r\n") -> tuple[Dialogue, Exchange]:
    dialogue, one = Dialogue(pipelining=pipelining), exchange(content)
    dialogue.take(one)
    assert dialogue.outgoing() == (MAIL + ANN + BOB + DATA if pipelining else MAIL)
    return dialogue, one


def has_room(dialogue: Dialogue) -> bool:
    """Asked anew each time, also in the eyes of the type checker."""
    return dialogue.has_room


def test_an_envelope_goes_out_in_one_piece_with_data_last() -> None:
    dialogue, _ = begun()
    assert dialogue.receive(b"250 ok\r\n250 ok\r\n250 ok\r\n") == []
    assert dialogue.outgoing() == b""
    dialogue.receive(b"354 go\r\n")
    assert dialogue.outgoing() == b"Hello\r\n.\r\n"


def test_without_pipelining_every_command_waits_for_its_answer() -> None:
    dialogue, one = begun(pipelining=False)
    said = []
    for reply in (b"250 a\r\n", b"250 b\r\n", b"250 c\r\n", b"354 d\r\n"):
        assert dialogue.receive(reply) == []
        said.append(dialogue.outgoing())
    assert said == [ANN, BOB, DATA, b"Hello\r\n.\r\n"]
    assert dialogue.receive(b"250 taken\r\n") == [one]
    assert dialogue.idle
    assert isinstance(judge(one, NAMES), Accepted)


def test_another_envelope_fits_behind_the_dot_and_nowhere_else() -> None:
    dialogue, one = begun()
    assert not has_room(dialogue)
    dialogue.receive(b"250 a\r\n250 b\r\n250 c\r\n354 d\r\n")
    assert has_room(dialogue)
    two = exchange()
    dialogue.take(two)
    assert dialogue.outgoing() == b"Hello\r\n.\r\n" + MAIL + ANN + BOB + DATA
    assert not has_room(dialogue)
    assert dialogue.receive(b"250 one\r\n250 a\r\n250 b\r\n250 c\r\n354 d\r\n") == [one]
    assert dialogue.outgoing() == b"Hello\r\n.\r\n"
    assert dialogue.receive(b"250 two\r\n") == [two]


def test_in_lock_step_nothing_goes_out_behind_the_dot() -> None:
    dialogue, _ = begun(pipelining=False)
    for reply in (b"250 a\r\n", b"250 b\r\n", b"250 c\r\n", b"354 d\r\n"):
        dialogue.receive(reply)
        dialogue.outgoing()
    assert not has_room(dialogue)


def test_data_refused_resets_and_the_next_envelope_may_follow_at_once() -> None:
    dialogue, one = begun()
    assert dialogue.receive(b"250 a\r\n250 b\r\n250 c\r\n451 4.3.0 no\r\n") == [one]
    assert has_room(dialogue)
    dialogue.take(exchange())
    assert dialogue.outgoing() == b"RSET\r\n" + MAIL + ANN + BOB + DATA
    assert dialogue.receive(b"250 reset\r\n250 a\r\n250 b\r\n250 c\r\n") == []
    assert dialogue.awaiting == "data"
    assert not dialogue.closing


def test_in_lock_step_a_refused_sender_ends_it_before_any_recipient() -> None:
    dialogue, one = begun(pipelining=False)
    assert dialogue.receive(b"550 5.7.1 not you\r\n") == [one]
    assert dialogue.outgoing() == b"RSET\r\n"
    assert not has_room(dialogue)
    dialogue.receive(b"250 reset\r\n")
    assert has_room(dialogue)


def test_a_refused_reset_ends_the_session() -> None:
    dialogue, _ = begun(pipelining=False)
    dialogue.receive(b"550 no\r\n")
    assert dialogue.outgoing() == b"RSET\r\n"
    dialogue.receive(b"500 what\r\n")
    assert dialogue.closing


def test_the_dot_counts_as_out_once_it_is_handed_over() -> None:
    dialogue, one = begun()
    dialogue.receive(b"250 a\r\n250 b\r\n250 c\r\n354 d\r\n")
    dialogue.outgoing()
    assert one.dot_out
    (lost,) = dialogue.lose("cut")
    verdict = judge(lost, NAMES)
    assert isinstance(verdict, Failure)
    assert verdict.maybe_sent


def test_a_cut_before_the_dot_is_provably_not_sent() -> None:
    dialogue, one = begun()
    dialogue.receive(b"250 a\r\n250 b\r\n250 c\r\n354 d\r\n")
    dialogue.lose("cut")
    verdict = judge(one, NAMES)
    assert isinstance(verdict, Failure)
    assert not verdict.maybe_sent


def test_large_content_leaves_before_its_dot() -> None:
    content = b"x" * (HOLD_DOT_ABOVE_BYTES + 1) + b"\r\n"
    dialogue, one = begun(content=content)
    dialogue.receive(b"250 a\r\n250 b\r\n250 c\r\n354 d\r\n")
    assert dialogue.outgoing() == content
    assert dialogue.awaiting == "drain"
    assert not one.dot_out
    assert not has_room(dialogue)
    dialogue.content_left()
    assert dialogue.outgoing() == b".\r\n"
    assert one.dot_out


def test_an_answer_in_the_middle_of_the_content_ends_the_session() -> None:
    dialogue, one = begun(content=b"x" * (HOLD_DOT_ABOVE_BYTES + 1))
    dialogue.receive(b"250 a\r\n250 b\r\n250 c\r\n354 d\r\n")
    dialogue.outgoing()
    assert dialogue.receive(b"552 5.3.4 too big\r\n") == [one]
    assert dialogue.closing
    verdict = judge(one, NAMES)
    assert isinstance(verdict, Failure)
    assert (verdict.error_class, verdict.maybe_sent) == ("message_too_large", False)


def test_a_yes_in_the_middle_of_the_content_is_doubt() -> None:
    dialogue, one = begun(content=b"x" * (HOLD_DOT_ABOVE_BYTES + 1))
    dialogue.receive(b"250 a\r\n250 b\r\n250 c\r\n354 d\r\n")
    dialogue.outgoing()
    assert dialogue.receive(b"250 taken?\r\n") == [one]
    verdict = judge(one, NAMES)
    assert isinstance(verdict, Failure)
    assert verdict.maybe_sent


def test_354_for_nobody_gets_a_lone_dot() -> None:
    dialogue, one = begun()
    dialogue.receive(b"250 a\r\n550 b\r\n550 c\r\n354 d\r\n")
    assert dialogue.outgoing() == b".\r\n"
    assert not has_room(dialogue)
    assert dialogue.receive(b"554 no valid recipients\r\n") == [one]
    assert not one.dot_out
    assert not dialogue.closing


def test_one_withdrawn_before_its_content_is_never_sent() -> None:
    dialogue, one = begun()
    one.withdrawn = True
    dialogue.receive(b"250 a\r\n250 b\r\n250 c\r\n354 d\r\n")
    assert dialogue.outgoing() == b""
    assert dialogue.closing


def test_after_a_refused_sender_354_breaks_the_session() -> None:
    """A server that has taken a recipient nevertheless would deliver the empty message."""
    dialogue, one = begun()
    dialogue.receive(b"550 not you\r\n250 b\r\n250 c\r\n354 d\r\n")
    assert dialogue.outgoing() == b""
    assert dialogue.broken is not None
    verdict = judge(one, NAMES)
    assert isinstance(verdict, Failure)
    assert (verdict.error_class, verdict.maybe_sent) == ("sender_refused", False)


def test_421_ends_the_session_and_what_stood_behind_is_lost_not_sent() -> None:
    dialogue, one = begun()
    dialogue.receive(b"250 a\r\n250 b\r\n250 c\r\n354 d\r\n")
    two = exchange()
    dialogue.take(two)
    dialogue.outgoing()
    assert dialogue.receive(b"421 4.3.2 shutting down\r\n") == [one]
    assert dialogue.closing
    assert dialogue.lose("cut") == [two]
    first, second = judge(one, NAMES), judge(two, NAMES)
    assert isinstance(first, Failure)
    assert isinstance(second, Failure)
    assert (first.code, first.maybe_sent) == ("421", False)
    assert not second.maybe_sent


def test_speaking_unasked_ends_the_session() -> None:
    for unasked in (b"421 idle too long\r\n", b"250 what you did not ask\r\n", b"25"):
        dialogue = Dialogue(pipelining=True)
        assert dialogue.receive(unasked) == []
        assert dialogue.closing


def test_an_answer_that_fits_no_question_breaks_the_session() -> None:
    for replies in (b"354 at MAIL\r\n", b"250 a\r\n250 b\r\n250 c\r\n250 to DATA\r\n"):
        dialogue, one = begun()
        assert dialogue.receive(replies) == []
        assert dialogue.broken is not None
        assert dialogue.lose("garbled") == [one]
        verdict = judge(one, NAMES)
        assert isinstance(verdict, Failure)
        assert (verdict.error_class, verdict.maybe_sent) == ("protocol_error", False)


def test_nonsense_after_the_dot_is_doubt_and_a_yes_before_nonsense_is_a_yes() -> None:
    for answer, sure in (
        (b"garbage\r\n", False),
        (b"354 huh\r\n", False),
        (b"250 ok\r\nzz\r\n", True),
    ):
        dialogue, one = begun()
        dialogue.receive(b"250 a\r\n250 b\r\n250 c\r\n354 d\r\n")
        dialogue.outgoing()
        dialogue.receive(answer)
        assert dialogue.closing
        dialogue.lose("garbled")
        verdict = judge(one, NAMES)
        assert isinstance(verdict, Accepted) is sure
        assert isinstance(verdict, Accepted) or verdict.maybe_sent


def test_an_answer_to_what_was_not_said_yet_never_lets_the_content_out() -> None:
    dialogue, one = begun()
    assert dialogue.receive(b"250 a\r\n250 b\r\n250 c\r\n354 d\r\n250 taken\r\n") == []
    assert dialogue.broken is not None
    dialogue.lose("garbled")
    assert dialogue.outgoing() == b""
    verdict = judge(one, NAMES)
    assert isinstance(verdict, Failure)
    assert not verdict.maybe_sent
