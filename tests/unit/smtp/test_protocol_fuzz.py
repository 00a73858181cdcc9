"""Any server at all: the core never raises, never forgets a recipient, never claims too much."""

import base64

from hypothesis import given, settings
from hypothesis import strategies as st

from homing.domain.failure import Failure
from homing.ports import Accepted
from homing.providers.smtp.auth import MECHANISMS, Secret, log_in, mechanisms_for
from homing.providers.smtp.classification import judge
from homing.providers.smtp.exchange import Exchange
from homing.providers.smtp.handshake import handshake
from homing.providers.smtp.protocol import HOLD_DOT_ABOVE_BYTES, Dialogue
from homing.providers.smtp.replies import Reply, ReplyParser
from homing.providers.smtp.steps import Refused, Say
from homing.providers.smtp.talk import Login

NAMES = ("ann@x", "bob@x")
BIG = b"x" * (HOLD_DOT_ABOVE_BYTES + 1) + b"\r\n"
_codes = st.sampled_from(
    [200, 250, 251, 354, 334, 421, 450, 451, 452, 500, 503, 530, 550, 552, 554]
)
_reply = st.builds(
    lambda code, text: b"%d %b\r\n" % (code, text),
    _codes,
    st.sampled_from([b"", b"4.7.1 x", b"5.1.1 y"]),
)
_good = st.sampled_from([b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"])
_noise = st.binary(max_size=12)
_pieces = st.lists(st.one_of(_good, _good, _reply, _noise), max_size=40)


def message(content: bytes) -> Exchange:
    return Exchange((b"MAIL\r\n", b"RCPT\r\n", b"RCPT\r\n", b"DATA\r\n"), content)


@settings(max_examples=400)
@given(pieces=_pieces, pipelining=st.booleans(), data=st.data())
def test_whatever_the_server_says(
    pieces: list[bytes], pipelining: bool, data: st.DataObject
) -> None:
    dialogue = Dialogue(pipelining=pipelining)
    taken: list[Exchange] = []
    ended: list[Exchange] = []
    for piece in pieces:
        if dialogue.closing:
            break
        if dialogue.has_room and data.draw(st.booleans()):
            taken.append(message(data.draw(st.sampled_from([b"hi\r\n", BIG]))))
            dialogue.take(taken[-1])
        if data.draw(st.integers(0, 4)):
            dialogue.outgoing()
        if dialogue.awaiting == "drain" and data.draw(st.booleans()):
            dialogue.content_left()
            dialogue.outgoing()
        if taken and data.draw(st.integers(0, 9)) == 0:
            taken[-1].withdrawn = True
        ended += dialogue.receive(piece)
    ended += dialogue.lose("cut")
    assert ended == taken
    assert dialogue.idle
    for exchange in ended:
        check_verdict(exchange)


def check_verdict(exchange: Exchange) -> None:
    verdict = judge(exchange, NAMES)
    answers = exchange.recipient_replies
    said_yes = {name for name, reply in zip(NAMES, answers, strict=False) if reply.kind == 2}
    assert not said_yes & verdict.refused.keys()
    if isinstance(verdict, Accepted):
        assert exchange.dot_out
        assert exchange.replies[-1].kind == 2
        assert said_yes | verdict.refused.keys() == set(NAMES)
        return
    assert isinstance(verdict, Failure)
    if exchange.dot_out:
        answered = len(exchange.replies) == len(exchange.commands) + 1
        assert verdict.maybe_sent is not answered
    elif exchange.awaiting != "drain":
        assert not verdict.maybe_sent


@given(
    pieces=st.lists(st.one_of(_reply, _noise, st.just(b"220 hi\r\n")), max_size=12),
    tls=st.sampled_from(["starttls", "implicit", "none"]),
)
def test_whatever_the_server_says_in_the_handshake(pieces: list[bytes], tls: str) -> None:
    parser = ReplyParser()
    replies: list[Reply] = [reply for piece in pieces for reply in parser.feed(piece)]
    steps = handshake(helo="me.test", tls=tls)  # type: ignore[arg-type] # drawn from its values
    try:
        step = next(steps)
        while replies:
            step = steps.send(replies.pop(0)) if isinstance(step, Say) else next(steps)
    except (Refused, StopIteration):
        pass


_challenge = st.builds(
    lambda text: b"334 " + base64.b64encode(text) + b"\r\n",
    st.one_of(
        _noise, st.just(b"r=x,s=c2FsdHNhbHRzYWx0,i=4096"), st.just(b"v=eA=="), st.just(b"e=")
    ),
)


@given(
    replies=st.lists(st.one_of(_reply, _challenge, st.just(b"235 in\r\n")), max_size=12),
    offered=st.sets(st.sampled_from([mechanism.name for mechanism in MECHANISMS])),
    takes=st.sampled_from(["password", "token", "certificate"]),
)
def test_whatever_the_server_says_in_the_login(
    replies: list[bytes], offered: set[str], takes: Secret
) -> None:
    order = mechanisms_for(takes, None)
    left = [reply for text in replies for reply in ReplyParser().feed(text)]
    steps = log_in(order, frozenset(offered), Login("user", "secret", "mail.test", 587))
    answer: Reply | None = None
    said = b""
    try:
        step = next(steps)
        while left:
            said = step.line
            assert step.phase == "auth"
            assert step.line.count(b"\r\n") == 1
            answer = left.pop(0)
            step = steps.send(answer)
    except Refused:
        pass
    except StopIteration:
        assert answer is not None
        assert answer.code == 235
        assert said != b"*\r\n"
    assert sorted(order, key=MECHANISMS.index) == mechanisms_for(takes, None)
