"""The fake as users get it: `homing-mock-graph`, in a process of its own."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from homing_systems.mock_graph.state import State
from tests.unit.cli.programs import free_port, started, until
from tests.unit.graph.sending import MIME

TOKEN_PATH = "/contoso/oauth2/v2.0/token"
SEND_PATH = "/v1.0/me/sendMail"
JSON_MAIL = {
    "message": {
        "subject": "Booked",
        "body": {"contentType": "Text", "content": "See you"},
        "toRecipients": [{"emailAddress": {"address": "ann@example.org"}}],
    }
}


@contextmanager
def mock_graph(folder: Path, *words: str) -> Iterator[httpx2.Client]:
    port = free_port()
    command = ["-m", "homing_systems.mock_graph", "--port", str(port), *words]
    with (
        started(folder, command) as program,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):

        def answers() -> bool:
            assert program.process.poll() is None, program.said()
            try:
                return client.get("/_calls").status_code == 200
            except httpx2.TransportError:
                return False

        until(answers, what="mock-graph")
        yield client
    assert program.process.returncode == 0


def refresh(client: httpx2.Client, token: str = "any") -> httpx2.Response:
    form = {"grant_type": "refresh_token", "client_id": "c", "refresh_token": token}
    return client.post(TOKEN_PATH, data=form)


def authorized(client: httpx2.Client) -> dict[str, Any]:
    return {"Authorization": f"Bearer {refresh(client).json()['access_token']}"}


def test_a_script_is_spent_by_sends_alone_and_then_answers_202(tmp_path: Path) -> None:
    """O-125."""
    words = ("--script", "503,429:120", "--token-script", "200,401,revoked", "--state", "a/b")
    with mock_graph(tmp_path, *words) as client:
        assert client.post(SEND_PATH, json=JSON_MAIL).status_code == 401
        headers = authorized(client)
        answers = [client.post(SEND_PATH, json=JSON_MAIL, headers=headers) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [503, 429, 202]
        assert answers[1].headers["Retry-After"] == "120"
        assert answers[1].json()["error"]["code"] == "ApplicationThrottled"
        refused = [refresh(client) for _ in range(3)]
        assert [answer.status_code for answer in refused] == [401, 400, 400]
        assert refused[1].json()["error"] == "invalid_grant"

        [mail] = client.get("/_ledger").json()
        assert (mail["recipient"], mail["subject"], mail["body"]) == (
            "ann@example.org",
            "Booked",
            "See you",
        )
        assert mail["time"].endswith("+00:00")
        calls = client.get("/_calls").json()
        assert [call["status"] for call in calls] == [401, 200, 503, 429, 202, 401, 400, 400]
        assert {call["path"] for call in calls} == {SEND_PATH, TOKEN_PATH}
    assert sorted(path.name for path in (tmp_path / "a/b").iterdir()) == [
        "calls.jsonl",
        "ledger.jsonl",
        "state.json",
    ]


def test_recipients_drafts_cuts_and_used_tokens(tmp_path: Path) -> None:
    scope = "Mail.Send Mail.ReadWrite"
    words = ("--scope", scope, "--recipient", "ann@example.org=cut,202-cut", "--revoke-used")
    with mock_graph(tmp_path, *words) as client:
        headers = authorized(client)
        assert refresh(client).json()["error"] == "invalid_grant"
        for _ in range(2):
            with pytest.raises(httpx2.RemoteProtocolError):
                client.post(SEND_PATH, json=JSON_MAIL, headers=headers)
        assert len(client.get("/_ledger").json()) == 1

        mime = {**headers, "Content-Type": "text/plain"}
        made = client.post("/v1.0/me/messages", content=base64.b64encode(MIME), headers=mime)
        assert (made.status_code, made.json()["isDraft"]) == (201, True)
        one = f"/v1.0/me/messages/{made.json()['id']}"
        assert client.post(f"{one}/send", headers=headers).status_code == 202
        assert client.get(one, headers=headers).json()["isDraft"] is False
        assert client.post(f"{one}/send", headers=headers).status_code == 400
        wrong = client.post("/v1.0/me/messages", content=b"%", headers=mime)
        assert wrong.json()["error"]["code"] == "ErrorMimeContentInvalidBase64String"


def test_a_mail_without_a_recipient_is_refused_and_drafts_need_the_permission(
    tmp_path: Path,
) -> None:
    with mock_graph(tmp_path) as client:
        headers = authorized(client)
        nobody = client.post(SEND_PATH, json={"message": {"subject": "x"}}, headers=headers)
        assert nobody.json()["error"]["code"] == "ErrorInvalidRecipients"
        assert client.get("/v1.0/me/messages", headers=headers).status_code == 403
        assert client.get("/_ledger").json() == []


@pytest.mark.parametrize(
    "words",
    [("--script", "503,never"), ("--token-script", "maybe"), ("--recipient", "503,202")],
)
def test_an_unknown_word_is_named(tmp_path: Path, words: tuple[str, str]) -> None:
    with started(tmp_path, ["-m", "homing_systems.mock_graph", "--port", "0", *words]) as program:
        assert program.process.wait(30) == 2

    assert words[1].rpartition(",")[2] in program.said()


def test_a_line_that_is_being_written_is_not_read_yet(tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").write_bytes(b'{"id":"whole"}\n{"id":"ha')
    assert State(tmp_path).ledger() == [{"id": "whole"}]
