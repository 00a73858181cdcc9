"""`homing send`: stored, tried at once, and told how it went."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from homing.domain.message import Email
from homing.runtime.clock import SystemClock
from tests.unit.cli.conftest import Cli
from tests.unit.cli.test_verbs import stored

MAIL = ("--subject", "S", "--text", "t")


def test_an_email_is_delivered_at_once(cli: Cli) -> None:
    said = cli("send", "--to", "ok@stub.test", *MAIL, "--key", "k", "--source", "shop").out
    item = cli("list", "--key", "k", "--json").json["items"][0]

    assert said == f"send: {item['delivery_id']} is delivered\n"
    assert (item["status"], item["source"]) == ("delivered", "shop")


def test_the_same_key_sends_nothing_again(cli: Cli) -> None:
    words = ("send", "--to", "ok@stub.test", *MAIL, "--key", "k")
    first = cli(*words, "--json").json

    again = cli(*words).out

    assert first["created"] is True
    assert again.endswith("is delivered; it was accepted before under this key\n")
    assert "was used by a different request" in cli(*words, "--cc", "ok@stub.test", code=1).err


def test_a_refusal_is_exit_code_1_with_its_reason(cli: Cli) -> None:
    said = cli("send", "--to", "bounce@stub.test", *MAIL, code=1).out

    assert said.endswith("is failed: 5.1.1 no such mailbox\n")


def test_what_fails_for_now_is_left_to_a_worker(cli: Cli) -> None:
    said = cli("send", "--to", "down@stub.test", *MAIL).out

    assert "is pending: 4.3.0 try again later; a worker tries again at 20" in said


def test_hidden_recipients_alone_are_enough_and_the_sender_is_checked(cli: Cli) -> None:
    sent = cli("send", "--bcc", "ok@stub.test", *MAIL, "--from", "homing@stub.test", "--json").json

    assert [each["address"] for each in sent["recipients"]] == ["ok@stub.test"]
    assert "from" in cli("send", "--to", "ok@stub.test", *MAIL, "--from", "x@y.org", code=2).err


def test_a_time_is_given_as_such_or_as_a_duration_from_now(cli: Cli) -> None:
    words = ("send", "--to", "ok@stub.test", *MAIL, "--json")
    before_ms = SystemClock().now_ms()
    later = cli(*words, "--send-at", "2h", "--expires-at", "2099-01-31T09:00+01:00").json

    assert (later["status"], later["attempts"]) == ("pending", 0)
    asked_at_ms = later["next_attempt_at_ms"] - 2 * 3_600_000
    assert before_ms <= asked_at_ms <= later["created_at_ms"]
    assert later["expires_at_ms"] == 4_073_529_600_000
    said = cli("send", "--to", "ok@stub.test", *MAIL, "--send-at", "2099-01-31T08:00Z").out
    assert said.endswith("is pending; a worker sends it at 2099-01-31 08:00:00Z\n")


@pytest.mark.parametrize("wrong", ["soon", "2099-01-31T08:00", "2099-01-31"])
def test_a_time_without_a_zone_is_wrong_usage(cli: Cli, wrong: str) -> None:
    said = cli("send", "--to", "ok@stub.test", *MAIL, "--expires-at", wrong, code=2).err

    assert f"--expires-at: '{wrong}' is not a time; write 2h for in two hours" in said


def test_it_may_only_be_stored(cli: Cli) -> None:
    view = cli("send", "--to", "ok@stub.test", *MAIL, "--queue", "--json").json

    assert (view["status"], view["attempts"]) == ("pending", 0)


def test_fields_files_and_stdin_make_the_email(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("fields.json").write_text(json.dumps({"subject": "From file", "reply_to": ["r@x.org"]}))
    Path("page.html").write_text("<p>Hi</p>")
    Path("report.pdf").write_bytes(b"%PDF")
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello"))

    words = ["--to", "ok@stub.test", "--to", "ok@stub.test", "--cc", "ok@stub.test"]
    words += ["--fields", "fields.json", "--html", "page.html", "--attach", "report.pdf"]
    view = cli("send", *words, "--text", "-", "--json").json

    _, email = stored(view["delivery_id"])
    assert isinstance(email, Email)
    assert (email.subject, email.text, email.html) == ("From file", "Hello", "<p>Hi</p>")
    assert email.reply_to == ("r@x.org",)
    [attachment] = email.attachments
    assert (attachment.filename, attachment.content_type) == ("report.pdf", "application/pdf")
    assert attachment.content == b"%PDF"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([*MAIL], "give a recipient: --to ann@example.org"),
        (["--to", "nobody", *MAIL], "homing: to"),
        (["--to", "ok@stub.test", "--html", "none.html"], "--html: none.html cannot be read"),
        (["--to", "ok@stub.test", "--var", "x"], "--var x: write NAME=VALUE"),
        (["--to", "ok@stub.test", "--template", "none"], "template_id: there is no such template"),
    ],
)
def test_a_wrong_email_is_wrong_usage(cli: Cli, words: list[str], problem: str) -> None:
    assert problem in cli("send", *words, code=2).err
