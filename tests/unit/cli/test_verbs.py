"""The operator verbs by command, tokens and migrations."""

import asyncio
import json
from pathlib import Path

import pytest

from homing.cli.demo import NAMES, TOGETHER
from homing.domain.delivery import Delivery
from homing.domain.message import Email, decode_message
from homing.plugins.programs import build
from homing.providers.stub import BEHAVIOURS
from homing.settings import RouteSettings, Settings
from tests.unit.cli.conftest import Cli

WHY = ("--reason", "asked for", "--actor", "ann")


def stored(delivery_id: str) -> tuple[Delivery, Email]:
    homing = build(Settings(), worker=False)

    async def read() -> tuple[Delivery, Email]:
        async with homing:
            content = await homing.store.content(delivery_id)
            assert content is not None
            email = decode_message(content.payload)
            assert isinstance(email, Email)
            return await homing.ops.show(delivery_id), email

    return asyncio.run(read())


def test_a_dead_letter_is_replayed_dismissed_and_restored(
    cli: Cli, letters: dict[str, str]
) -> None:
    letter = letters["bounce"]

    assert cli("dismiss", letter, *WHY).out == f"dismiss: {letter} is dismissed\n"
    assert cli("restore", letter, *WHY, "--json").json["status"] == "failed"
    assert cli("replay", letter, *WHY).out == f"replay: {letter} is pending\n"
    assert f"cannot replay delivery {letter}" in cli("replay", letter, *WHY, code=1).err
    audit = cli("show", letter, "--json").json["audit"]
    assert [(entry["verb"], entry["actor"], entry["reason"]) for entry in audit] == [
        ("dismiss", "ann", "asked for"),
        ("restore", "ann", "asked for"),
        ("replay", "ann", "asked for"),
    ]


def test_restart_cancel_and_resend(cli: Cli, letters: dict[str, str]) -> None:
    assert cli("restart", letters["bounce"], *WHY, "--json").json["cycle"] == 2
    assert cli("cancel", letters["down"], *WHY).out.endswith("is cancelled\n")
    clone = cli("resend", letters["ok"], *WHY, "--json").json
    assert clone["clone_of"] == letters["ok"]
    assert clone["delivery_id"] != letters["ok"]


def test_confirm_needs_evidence_and_an_uncertain_letter(cli: Cli, letters: dict[str, str]) -> None:
    assert "Missing option" in cli("confirm", letters["bounce"], *WHY, code=2).err
    err = cli("confirm", letters["bounce"], *WHY, "--evidence", "seen", code=1).err
    assert "cannot confirm" in err


def test_a_note_is_kept_and_shown(cli: Cli, letters: dict[str, str]) -> None:
    cli("annotate", letters["ok"], "--note", "the customer called", "--actor", "ann")

    assert "ann annotate: the customer called" in cli("show", letters["ok"]).out


def test_who_did_it_is_the_user_of_the_terminal(
    cli: Cli, letters: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "bob")

    cli("dismiss", letters["bounce"], "--reason", "old")

    assert cli("show", letters["bounce"], "--json").json["audit"][0]["actor"] == "bob"


@pytest.mark.parametrize(
    "words", [["--reason", "a\x1b[2J"], ["--reason", "x", "--actor", "\u202e"]]
)
def test_reasons_and_names_are_lines_that_read_as_they_are(
    cli: Cli, letters: dict[str, str], words: list[str]
) -> None:
    assert "character U+" in cli("dismiss", letters["bounce"], *words, code=2).err


def test_an_empty_reason_and_an_unknown_route_are_refused(
    cli: Cli, letters: dict[str, str]
) -> None:
    assert "reason: must not be empty" in cli("dismiss", letters["ok"], "-r", " ", code=2).err
    assert "no route 'post' here; there are " in cli("pause", "post", *WHY, code=2).err


def test_amend_corrects_the_address_and_keeps_the_rest(cli: Cli, letters: dict[str, str]) -> None:
    cli("amend", letters["bounce"], *WHY, "--to", "ok@stub.test")

    delivery, email = stored(letters["bounce"])
    assert [r.address for r in delivery.recipients] == ["ok@stub.test"]
    assert (email.to, email.subject, email.text) == (("ok@stub.test",), "S", "t")


def test_why_knows_an_address_that_was_amended_away(cli: Cli, letters: dict[str, str]) -> None:
    cli("amend", letters["bounce"], *WHY, "--to", "ok@stub.test")

    said = cli("why", "bounce@stub.test").out
    assert letters["bounce"] in said
    assert "used amend" in said
    assert "It was amended: it no longer goes to bounce@stub.test." in said


def test_amend_takes_fields_from_a_file(cli: Cli, letters: dict[str, str]) -> None:
    Path("fields.json").write_text(json.dumps({"subject": "New", "html": "<p>new</p>"}))

    cli("amend", letters["bounce"], *WHY, "--fields", "fields.json")

    _, email = stored(letters["bounce"])
    assert (email.subject, email.html, email.to) == ("New", "<p>new</p>", ("bounce@stub.test",))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('{"colour": 1}', "colour: is not a field of an e-mail"),
        ('{"subject": 5}', "subject: "),
        ('{"to": ["nobody"]}', "to"),
        ("[]", "fields: is not a JSON object"),
        ("{", "fields: is not a JSON object"),
    ],
)
def test_wrong_fields_are_named_and_nothing_is_changed(
    cli: Cli, letters: dict[str, str], fields: str, message: str
) -> None:
    Path("fields.json").write_text(fields)
    before = stored(letters["bounce"])

    err = cli("amend", letters["bounce"], *WHY, "--fields", "fields.json", code=2).err

    assert message in err
    assert stored(letters["bounce"]) == before


def test_amend_without_a_change_is_a_usage_error(cli: Cli, letters: dict[str, str]) -> None:
    assert "give --to or --fields" in cli("amend", letters["bounce"], *WHY, code=2).err
    err = cli("amend", letters["bounce"], *WHY, "--fields", "none.json", code=2).err
    assert "fields: cannot be read: No such file" in err


def test_tokens_are_made_listed_and_revoked(cli: Cli) -> None:
    token = cli("token", "create", "ci", "--role", "sender").out.strip()

    listed = cli("token", "list")
    assert token.startswith("hmg_")
    assert token not in listed.out
    assert cli("token", "list", "--json").json["items"][0]["role"] == "sender"
    assert "exists" in cli("token", "create", "ci", "--role", "viewer", code=1).err
    wrong = cli("token", "create", "x", "--role", "king", code=2).err
    assert "'king' is not a role; use one of viewer, sender, operator, admin" in wrong
    cli("token", "revoke", "ci")
    assert cli("token", "list", "--json").json["items"] == []
    assert "no token named 'ci'" in cli("token", "revoke", "ci", code=1).err


def test_migrate_names_what_is_pending_and_applies_it(cli: Cli) -> None:
    pending = cli("migrate", "--dry-run", "--json").json["pending"]

    assert pending[0] == "0001_deliveries"
    assert not Path("homing.db").exists()
    assert cli("migrate").out.startswith("applied: 0001_deliveries\n")
    assert cli("migrate").out == "nothing to do: the store has the newest schema\n"
    assert cli("migrate", "--dry-run", "--json").json == {"pending": []}


def test_a_file_that_is_no_database_is_told(cli: Cli) -> None:
    Path("homing.db").write_bytes(b"no database at all" * 100)

    assert "homing.db" in cli("migrate", "--dry-run", code=1).err


def test_an_uncertain_letter_is_confirmed_with_its_evidence(cli: Cli) -> None:
    hold = RouteSettings(on_unknown="hold", max_attempts=1)
    homing = build(Settings(routes={"mail": hold}), worker=False)

    async def fill() -> str:
        async with homing:
            email = Email(to="maybe@stub.test", subject="S", text="t")
            ticket = await homing.submit(email)
            await homing.engine.run_until_idle()
            return ticket.delivery_id

    letter = asyncio.run(fill())
    assert "It is failed (uncertain)." in cli("why", letter).out

    cli("confirm", letter, *WHY, "--evidence", "the customer has it")

    assert cli("show", letter, "--json").json["receipt"]["evidence"] == "operator"
    assert "(confirmed by a person)" in cli("why", letter).out


def test_the_demo_writes_to_every_behaviour_of_the_stub() -> None:
    shown = {"soft-N" if name.startswith("soft-") else name for name in (*NAMES, *TOGETHER)}

    assert shown == BEHAVIOURS.keys()
