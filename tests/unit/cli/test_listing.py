"""`list` and `failures`: what they show, their filters, and words that are not known."""

from __future__ import annotations

import asyncio
import csv
import io
from pathlib import Path

import pytest

from homing import Event, Homing
from tests.unit.cli.conftest import Cli


def test_a_row_has_created_key_recipient_status_and_error(
    cli: Cli, letters: dict[str, str]
) -> None:
    head, *rows = cli("list", "--recipient", "bounce@stub.test").out.splitlines()

    assert " ".join(head.split()) == (
        "id created route status because attempts next error key handler to"
    )
    [row] = rows
    created = cli("show", letters["bounce"], "--json").json["created_at_ms"]
    assert created > 0
    for text in ("mail", "failed", "rejected", "recipient_refused", "key-bounce"):
        assert text in row
    assert row.endswith("bounce@stub.test")
    assert row.split()[1].startswith("20")


def test_an_event_is_listed_with_its_type_and_handler(cli: Cli) -> None:
    homing = Homing("sqlite:///homing.db", worker=False)

    @homing.on("invoice.paid")
    def book(event: object) -> None:
        """The only one."""

    @homing.on("order.sent", name="tell")
    @homing.on("order.sent", name="count")
    def several(event: object) -> None:
        """One of two."""

    async def work() -> None:
        async with homing:
            await homing.submit(Event("invoice.paid"), key="i-1")
            await homing.submit(Event("order.sent"), key="o-1")
            await homing.engine.run_until_idle()

    asyncio.run(work())

    items = cli("list", "--json").json["items"]
    # An event with several handlers is listed once, not with the row of each handler.
    assert sorted((i["topic"], i["handler"]) for i in items) == [
        ("invoice.paid", "book"),
        ("order.sent", None),
    ]
    [row] = [line for line in cli("list").out.splitlines() if "i-1" in line]
    assert row.split()[-3:] == ["i-1", "book", "invoice.paid"]
    [item] = [i for i in items if i["idempotency_key"] == "i-1"]
    said = cli("why", item["delivery_id"]).out
    assert "It is delivered: handler 'book' has handled it." in said
    assert cli("list", "--topic", "invoice.paid", "--json").json["items"] == [item]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], ["bounce"]),
        (["--reason", "rejected"], ["bounce"]),
        (["--reason", "poison"], []),
        (["--error-class", "recipient_refused"], ["bounce"]),
        (["--error-class", "timeout"], []),
        (["--recipient", "Bounce@STUB.test"], []),
        (["--recipient", "bounce@STUB.test"], ["bounce"]),
        (["--route", "mail", "--source", "tests", "--key", "key-bounce"], ["bounce"]),
        (["--key", "key-ok"], []),
        (["--created-after", "1h"], ["bounce"]),
        (["--created-before", "1h"], []),
        (["--created-after", "2020-01-01"], ["bounce"]),
        (["--created-before", "2020-01-01T08:00Z"], []),
    ],
)
def test_dead_letters_are_listed_by_every_filter(
    cli: Cli, letters: dict[str, str], words: list[str], names: list[str]
) -> None:
    items = cli("list", "--state", "failed", *words, "--json").json["items"]

    assert [item["delivery_id"] for item in items] == [letters[name] for name in names]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["list", "--status", "bogus"], "status: must be one of "),
        (["list", "--route", "bogus"], "route: must be one of bookings, events, mail"),
        (["list", "--reason", "bogus"], "--reason: must be one of rejected, "),
        (
            ["list", "--created-after", "bogus"],
            "--created-after: 'bogus' is not a time",
        ),
        (["list", "--created-before", "31.12."], "--created-before: '31.12.' is not a time"),
        (["failures", "--route", "bogus"], "route: must be one of bookings, events, mail"),
        (["failures", "--state", "pending"], "state: must be failed"),
        (["pause", "bogus", "-r", "x"], "there is no route 'bogus' here; there are bookings, "),
        (["watch", "--interval", "often"], "--interval: 'often' is not a duration; write 30, 1.5s"),
        (["replay", "--filter", "colour=red", "-r", "x"], "the names are state, status, "),
        (["replay", "--filter", "route", "-r", "x"], "--filter route: write NAME=VALUE"),
        (["cancel", "--filter", "status=bogus", "-r", "x"], "status: must be one of "),
    ],
)
def test_a_word_that_is_not_known_is_wrong_usage(
    cli: Cli, letters: dict[str, str], words: list[str], problem: str
) -> None:
    done = cli(*words, code=2)

    assert problem in done.err
    assert done.out == ""


def test_a_status_and_a_reason_hold_together(cli: Cli, letters: dict[str, str]) -> None:
    def found(*words: str) -> int:
        return len(cli("list", *words, "--json").json["items"])

    assert found("--status", "failed", "--reason", "rejected") == 1
    assert found("--status", "failed", "--reason", "exhausted") == 0
    assert found("--status", "delivered", "--reason", "rejected") == 0


def test_failures_are_grouped_with_their_newest(cli: Cli, letters: dict[str, str]) -> None:
    cli("send", "--to", "bounce@stub.test", "--text", "t", code=1)

    [group] = cli("failures", "--json").json["items"]
    text = cli("failures").out

    assert (group["count"], group["error_class"]) == (2, "recipient_refused")
    assert group["newest"]["delivery_id"] != letters["bounce"]
    assert text.splitlines()[1].split()[:4] == ["2", "mail", "recipient_refused", "rejected"]
    assert text.splitlines()[1].endswith("5.1.1 no such mailbox")
    assert (
        cli("failures", "--created-after", "1h", "--key", "key-bounce", "--json").json["items"][0][
            "count"
        ]
        == 1
    )


def test_show_tells_the_subject(cli: Cli, letters: dict[str, str]) -> None:
    assert cli("show", letters["ok"]).out.startswith("subject            S\n")
    assert cli("show", letters["ok"], "--json").json["subject"] == "S"


def test_show_tells_the_subject_that_a_template_gave(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "catalog" / "welcome" / "en"
    folder.mkdir(parents=True)
    (folder / "subject.tmpl").write_text("Grüße, {{ name }}")
    (folder / "text.tmpl").write_text("Hello {{ name }}")
    monkeypatch.setenv("HOMING_TEMPLATES", "catalog")
    sent = ("send", "--to", "ok@stub.test", "--template", "welcome", "--var", "name=Ann", "--json")
    delivery_id = cli(*sent).json["delivery_id"]

    assert cli("show", delivery_id, "--json").json["subject"] == "Grüße, Ann"


def test_all_that_match_are_exported_as_csv(
    cli: Cli, letters: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("homing.cli.listing.EXPORT_PAGE", 1)
    rows = list(csv.DictReader(io.StringIO(cli("list", "--format", "csv").out)))
    listed = cli("list", "--format", "json").json["items"]
    assert [row["delivery_id"] for row in rows] == [item["delivery_id"] for item in listed]
    assert len(rows) > 1
    first = list(csv.DictReader(io.StringIO(cli("list", "--format", "csv", "--limit", "1").out)))
    assert first == rows[:1]
    assert "is not known; use one of" in cli("list", "--format", "xlsx", code=2).err


def test_search_finds_by_whatever_is_known(cli: Cli, letters: dict[str, str]) -> None:
    for name, delivery_id in letters.items():
        found = cli("search", delivery_id, "--json").json
        assert (found["matched"], len(found["items"])) == ("id", 1), name
        assert delivery_id in cli("search", delivery_id).out
    assert "nothing found for 'nothing such'" in cli("search", "nothing such", code=1).err


def test_pages_lead_both_ways(cli: Cli, letters: dict[str, str]) -> None:
    first = cli("list", "--json", "--limit", "1").json
    second = cli("list", "--json", "--limit", "1", "--after", first["next_cursor"]).json
    back = cli("list", "--json", "--limit", "1", "--before", second["previous_cursor"]).json
    assert back["items"] == first["items"]
    both = ("--before", first["next_cursor"], "--after", first["next_cursor"])
    assert "--before cannot be combined with --after" in cli("list", *both, code=2).err


def test_workers_are_listed(cli: Cli, letters: dict[str, str]) -> None:
    del letters
    assert cli("workers", "--json").json == {"items": [], "unserved": {"mail": 1}}
    assert cli("workers").out.startswith("no worker is running\n")


def test_counters_are_shown(cli: Cli, letters: dict[str, str]) -> None:
    shown = cli("counters", "--json").json
    assert sum(point["accepted"] for point in shown["points"]) == len(letters)
    assert cli("counters", "--span", "week").out.startswith("from")
    assert "use one of hour, day, week" in cli("counters", "--span", "year", code=2).err
    assert "route: must be one of" in cli("counters", "--route", "none", code=2).err
