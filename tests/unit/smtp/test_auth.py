"""Every way to log in, without a socket: what is said to what a server answers."""

import base64
import sys

import pytest
from scramp import ScramMechanism

from homing.providers.smtp.auth import MECHANISMS, Mechanism, Secret, log_in, mechanisms_for
from homing.providers.smtp.replies import Reply, ReplyParser
from homing.providers.smtp.scram import MAX_ITERATIONS
from homing.providers.smtp.steps import Refused
from homing.providers.smtp.talk import Login

USER, PASSWORD = "ann@example.org", "pass word"
LOGIN = Login(USER, PASSWORD, "mail.example.org", 587)
TOKEN = Login(USER, "ya29.token", "mail.example.org", 587)
IN = "235 2.7.0 in"
NO = "535 5.7.8 no"
PLAIN = base64.b64encode(f"\0{USER}\0{PASSWORD}".encode()).decode()


def b64(text: str | bytes) -> str:
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def as_reply(text: str) -> Reply:
    [reply] = ReplyParser().feed(text.encode() + b"\r\n")
    return reply


def play(
    offered: str,
    *replies: str | type[EOFError],
    login: Login = LOGIN,
    order: list[Mechanism] | None = None,
    takes: Secret = "password",
) -> list[str]:
    """The lines that are said, one for each reply; all replies have to be used up."""
    order = mechanisms_for(takes, None) if order is None else order
    steps = log_in(order, frozenset(offered.split()), login)
    said: list[str] = []
    left = list(replies)
    try:
        step = next(steps)
        while True:
            said.append(step.line.decode().removesuffix("\r\n"))
            answer = left.pop(0)
            if isinstance(answer, str):
                step = steps.send(as_reply(answer))
            else:
                step = steps.throw(answer())
    except StopIteration:
        assert not left
        return said


def refusal(offered: str, *replies: str | type[EOFError], login: Login = LOGIN) -> Refused:
    with pytest.raises(Refused) as refused:
        play(offered, *replies, login=login)
    return refused.value


def test_plain_says_all_in_one_line() -> None:
    assert play("LOGIN PLAIN", IN) == [f"AUTH PLAIN {PLAIN}"]


@pytest.mark.parametrize("prompt", ["334 ", "334", "334 anything"])
def test_plain_to_a_server_that_asks_again(prompt: str) -> None:
    assert play("PLAIN", prompt, IN) == [f"AUTH PLAIN {PLAIN}", PLAIN]


def test_a_long_first_response_waits_for_the_challenge() -> None:
    """RFC 4954: a command line has at most 512 bytes."""
    login = Login(USER, "x" * 400, "mail.example.org", 587)
    response = b64(f"\0{USER}\0{login.secret}")
    assert play("PLAIN", "334 ", IN, login=login) == ["AUTH PLAIN", response]


@pytest.mark.parametrize("prompts", [("334 VXNlcm5hbWU6", "334 UGFzc3dvcmQ6"), ("334 u?", "334")])
def test_login_is_asked_twice(prompts: tuple[str, str]) -> None:
    assert play("LOGIN", *prompts, IN) == ["AUTH LOGIN", b64(USER), b64(PASSWORD)]


def test_cram_md5() -> None:
    """RFC 2195, with its own example."""
    login = Login("tim", "tanstaaftanstaaf", "postoffice.reston.mci.net", 587)
    challenge = "334 PDE4OTYuNjk3MTcwOTUyQHBvc3RvZmZpY2UucmVzdG9uLm1jaS5uZXQ+"
    assert play("CRAM-MD5", challenge, IN, login=login) == [
        "AUTH CRAM-MD5",
        "dGltIGI5MTNhNjAyYzdlZGE3YTQ5NWI0ZTZlNzMzNGQzODkw",
    ]


def test_cram_md5_with_a_challenge_that_cannot_be_read_is_cancelled() -> None:
    assert play("CRAM-MD5 LOGIN", "334 u", "334 p", IN)[0] == "AUTH LOGIN"
    heard = refusal("CRAM-MD5", "334 ???", "501 5.7.0 cancelled").heard
    assert isinstance(heard, Reply)
    assert heard.code == 501


@pytest.mark.parametrize(
    ("name", "first", "acknowledged"),
    [
        (
            "OAUTHBEARER",
            "n,a=ann@example.org,\1host=mail.example.org\1port=587\1auth=Bearer ya29.token\1\1",
            "AQ==",
        ),
        ("XOAUTH2", "user=ann@example.org\1auth=Bearer ya29.token\1\1", ""),
    ],
)
def test_oauth(name: str, first: str, acknowledged: str) -> None:
    """The reason of a refusal comes as a challenge, which is acknowledged before the 535."""
    said = f"AUTH {name} {b64(first)}"
    assert play(name, IN, login=TOKEN, takes="token") == [said]
    steps = log_in(mechanisms_for("token", None), frozenset({name}), TOKEN)
    assert next(steps).line == f"{said}\r\n".encode()
    assert steps.send(as_reply(f"334 {b64('{}')}")).line == f"{acknowledged}\r\n".encode()
    with pytest.raises(Refused) as refused:
        steps.send(as_reply(NO))
    assert refused.value.heard == as_reply(NO)


def test_a_user_cannot_add_to_an_oauthbearer_response() -> None:
    login = Login("a=b,c", "t", "h", 1)
    said = play("OAUTHBEARER", IN, login=login, takes="token")
    assert base64.b64decode(said[0].split()[2]).startswith(b"n,a=a=3Db=2Cc,\1host=h")


def test_external_leaves_it_to_the_certificate() -> None:
    nobody = Login("", "", "h", 1)
    assert play("EXTERNAL PLAIN", IN, login=nobody, takes="certificate") == ["AUTH EXTERNAL ="]
    as_ann = Login("ann", "", "h", 1)
    assert play("EXTERNAL", IN, login=as_ann, takes="certificate") == ["AUTH EXTERNAL YW5u"]


class ScramServer:
    """The server's side, with the password in its own form."""

    def __init__(self, password: str = PASSWORD) -> None:
        mechanism = ScramMechanism("SCRAM-SHA-256")
        secrets = mechanism.make_auth_info(password)
        self._server = mechanism.make_server(lambda _: secrets)

    def first(self, line: bytes) -> str:
        self._server.set_client_first(base64.b64decode(line.split()[2]).decode())
        return f"334 {b64(self._server.get_server_first())}"

    def final(self, line: bytes) -> str:
        self._server.set_client_final(base64.b64decode(line).decode())
        return f"334 {b64(self._server.get_server_final())}"


def test_scram_by_the_example_of_its_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 7677, section 3."""
    monkeypatch.setattr("scramp.core.token_hex", lambda: "rOprNGfwEbeRWgbNEkqO")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    login = Login("user", "pencil", "h", 1)
    said = play(
        "SCRAM-SHA-256",
        f"334 {b64(f'r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096')}",
        f"334 {b64('v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=')}",
        IN,
        login=login,
    )
    assert said == [
        f"AUTH SCRAM-SHA-256 {b64('n,,n=user,r=rOprNGfwEbeRWgbNEkqO')}",
        b64(f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="),
        "",
    ]


def test_scram_is_preferred_and_both_sides_prove_the_password() -> None:
    server = ScramServer()
    offered = frozenset({"PLAIN", "SCRAM-SHA-256"})
    steps = log_in(mechanisms_for("password", None), offered, LOGIN)
    said = [next(steps).line]
    said.append(steps.send(as_reply(server.first(said[0]))).line)
    said.append(steps.send(as_reply(server.final(said[1]))).line)
    assert said[2] == b"\r\n"
    with pytest.raises(StopIteration):
        steps.send(as_reply(IN))
    assert not any(b64(PASSWORD).encode() in line or PLAIN.encode() in line for line in said)


@pytest.mark.parametrize("answer", [IN, f"334 {b64('v=' + b64(b'x' * 32))}", f"334 {b64('?')}"])
def test_scram_and_a_server_that_does_not_know_the_password(answer: str) -> None:
    """It may be an impostor: neither is the session used nor is the password given to it."""
    server = ScramServer()
    offered = frozenset({"PLAIN", "SCRAM-SHA-256"})
    steps = log_in(mechanisms_for("password", None), offered, LOGIN)
    steps.send(as_reply(server.first(next(steps).line)))
    with pytest.raises(Refused) as refused:
        steps.send(as_reply(answer))
    assert refused.value.heard == "untrusted"


def test_scram_and_a_server_that_accepts_without_a_proof_of_ours() -> None:
    assert refusal("SCRAM-SHA-256 PLAIN", IN).heard == "untrusted"


@pytest.mark.parametrize(
    "first",
    [
        f"r={{nonce}}x,s={b64(b's' * 16)},i={MAX_ITERATIONS + 1}",
        f"r={{nonce}}x,s={b64(b's' * 16)},i=1",
        f"r=other,s={b64(b's' * 16)},i=4096",
        "nonsense",
        "",
    ],
)
def test_scram_with_a_challenge_that_is_wrong_or_too_dear_is_cancelled(first: str) -> None:
    offered = frozenset({"PLAIN", "SCRAM-SHA-256"})
    steps = log_in(mechanisms_for("password", None), offered, LOGIN)
    nonce = base64.b64decode(next(steps).line.split()[2]).decode().partition("r=")[2]
    challenge = b64(first.format(nonce=nonce))
    assert steps.send(as_reply(f"334 {challenge}")).line == b"*\r\n"
    assert steps.send(as_reply("501 5.7.0 cancelled")).line.startswith(b"AUTH PLAIN ")


def test_scram_without_a_way_to_say_the_password_leaves_it_to_others() -> None:
    login = Login(USER, "pass\u0001word", "h", 1)  # not allowed by SASLprep
    assert play("SCRAM-SHA-256 PLAIN", IN, login=login)[0].startswith("AUTH PLAIN ")


def test_scram_that_is_not_installed_leaves_it_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scramp", None)
    assert play("SCRAM-SHA-256 PLAIN", IN) == [f"AUTH PLAIN {PLAIN}"]
    found = refusal("SCRAM-SHA-256")
    assert (found.heard, found.detail) == (
        "missing",
        "SCRAM needs the package scramp: install homing[mail]",
    )


@pytest.mark.parametrize(
    "code", ["504 5.5.4 unknown", "534 5.7.9 too weak", "502 5.5.1 no", "538 5.7.11 encrypt"]
)
def test_a_refused_method_is_followed_by_the_next(code: str) -> None:
    assert play("PLAIN LOGIN", code, "334 u", "334 p", IN) == [
        f"AUTH PLAIN {PLAIN}",
        "AUTH LOGIN",
        b64(USER),
        b64(PASSWORD),
    ]


def test_a_password_that_the_server_has_seen_is_not_offered_to_it_again() -> None:
    """535 is about the password, and the server locks the account after a few."""
    assert refusal("PLAIN LOGIN CRAM-MD5", NO).heard == as_reply(NO)


def test_a_server_that_has_no_scram_secret_of_this_user_gets_the_password_once() -> None:
    """It refuses the right password by the method that it cannot check."""
    order = mechanisms_for("password", None)
    assert play("SCRAM-SHA-256 PLAIN", NO, IN, order=order)[1] == f"AUTH PLAIN {PLAIN}"
    # The next connection does not cause another failure.
    assert play("SCRAM-SHA-256 PLAIN", IN, order=order) == [f"AUTH PLAIN {PLAIN}"]


def test_what_is_not_final_is_not_answered_by_another_method() -> None:
    for text in ("454 4.7.0 later", "421 4.7.0 go away"):
        assert refusal("PLAIN LOGIN", text).heard == as_reply(text)


def test_the_refusal_of_the_password_is_told_before_that_of_a_method() -> None:
    assert refusal("SCRAM-SHA-256 PLAIN", NO, "504 5.5.4 unknown").heard == as_reply(NO)


def test_a_server_that_hangs_up_after_its_refusal() -> None:
    assert refusal("SCRAM-SHA-256 PLAIN", NO, EOFError).heard == as_reply(NO)
    with pytest.raises(EOFError):
        play("PLAIN", EOFError)


def test_a_server_without_a_common_method() -> None:
    found = refusal("NTLM GSSAPI")
    assert found.heard == "missing"
    assert "SCRAM-SHA-256, PLAIN, LOGIN, CRAM-MD5" in found.detail


def test_a_server_that_never_stops_asking_is_cancelled() -> None:
    found = refusal("PLAIN", "334 ", "334 ", "501 5.5.2 cancelled")
    assert found.heard == as_reply("501 5.5.2 cancelled")


def test_a_server_that_accepts_what_was_cancelled_is_not_trusted() -> None:
    assert refusal("PLAIN", "334 ", "334 ", IN).heard == "untrusted"


def test_one_method_may_be_named() -> None:
    assert [each.name for each in mechanisms_for("password", "LOGIN")] == ["LOGIN"]
    assert {each.takes for each in MECHANISMS} == {"password", "token", "certificate"}


def test_a_login_shows_nothing() -> None:
    assert repr(LOGIN) == "Login([hidden])"
