"""The readers: data on stdout, JSON for programs, words of the route, nothing obeyed."""

import asyncio
from pathlib import Path

import pytest

from homing.cli.reading import counts, words_of
from homing.domain.message import Email, Event
from homing.engine.ops.labels import Label, LabelTable
from homing.plugins.programs import build
from homing.ports import Query
from homing.settings import Settings
from tests.unit.cli.conftest import HOSTILE, Cli


def test_status_counts_by_route_and_word(cli: Cli, letters: dict[str, str]) -> None:
    found = cli("status", "--json").json

    assert {(c["route"], c["status"]): c["count"] for c in found["counts"]} == {
        ("mail", "delivered"): 1,
        ("mail", "failed"): 1,
        ("mail", "pending"): 1,
        ("mail", "suppressed"): 1,
    }
    text = cli("status").out
    assert "no worker is running; paused routes: none" in text


def test_a_status_word_finds_only_what_is_shown_by_it(cli: Cli, letters: dict[str, str]) -> None:
    """The installed plugins use some words for other states than the mail route does."""
    said = cli("list", "--status", "lost", code=2).err
    for word in said.partition("use one of ")[2].strip().split(", "):
        items = cli("list", "--json", "--status", word).json["items"]
        assert {item["status"] for item in items} <= {word}


def test_list_filters_and_goes_on(cli: Cli, letters: dict[str, str]) -> None:
    first = cli("list", "--json", "--limit", "3").json
    second = cli("list", "--json", "--after", first["next_cursor"]).json

    assert [item["delivery_id"] for item in (*first["items"], *second["items"])] == [
        *reversed(letters.values())
    ]
    assert second["next_cursor"] is None
    for option, value, name in (
        ("--recipient", "down@stub.test", "down"),
        ("--status", "failed", "bounce"),
        ("--key", "key-ok", "ok"),
        ("--error-class", "suppressed", "suppressed"),
    ):
        [item] = cli("list", "--json", option, value).json["items"]
        assert item["delivery_id"] == letters[name]
    assert len(cli("list", "--json", "--source", "tests", "--route", "mail").json["items"]) == 4
    assert cli("list", "--json", "--topic", "none").json["items"] == []
    assert "there are more: --after" in cli("list", "--limit", "1").err


def test_dead_lists_the_dead_letters(cli: Cli, letters: dict[str, str]) -> None:
    text = cli("list", "--state", "failed").out

    assert letters["bounce"] in text
    assert "rejected" in text
    assert letters["ok"] not in text
    assert [
        item["status"] for item in cli("list", "--state", "failed", "--json").json["items"]
    ] == ["failed"]


def test_show_is_the_whole_delivery(cli: Cli, letters: dict[str, str]) -> None:
    found = cli("show", letters["bounce"], "--json").json
    text = cli("show", letters["bounce"]).out

    assert found["status"] == "failed"
    assert found["idempotency_key"] == "key-bounce"
    assert found["audit"] == []
    assert "address=bounce@stub.test, outcome=refused, code=550" in text
    assert "no delivery nobody" in cli("show", "nobody", code=1).err


def test_attempts_are_the_ledger_and_the_coming_one(cli: Cli, letters: dict[str, str]) -> None:
    found = cli("attempts", letters["down"], "--json").json["items"]
    text = cli("attempts", letters["down"]).out

    assert [item["status"] for item in found] == ["failed", "scheduled"]
    assert "451" in text
    assert cli("attempts", "nobody", code=1).err == "homing: no delivery nobody\n"


def test_attempts_of_a_parent_without_own_ones_name_its_children(cli: Cli) -> None:
    homing = build(Settings(), worker=False)

    @homing.on("order.sent", name="tell", terminal_errors=(ValueError,))
    @homing.on("order.sent", name="count", terminal_errors=(ValueError,))
    def several(event: object) -> None:
        raise ValueError("no such order")

    async def work() -> tuple[str, list[str]]:
        async with homing:
            ticket = await homing.submit(Event("order.sent"))
            await homing.engine.run_until_idle()
            children = await homing.store.page(Query(parent_id=ticket.delivery_id))
            return ticket.delivery_id, [child.id for child in children.items]

    parent, children = asyncio.run(work())

    assert len(children) == 2
    said = cli("attempts", parent).out
    assert said == f"Its attempts are those of its children: {', '.join(children)}\n"
    assert cli("attempts", parent, "--json").json == {"items": []}
    assert "no such order" in cli("attempts", children[0]).out


def test_why_tells_the_story_of_a_delivery_and_of_an_address(
    cli: Cli, letters: dict[str, str]
) -> None:
    by_id = cli("why", letters["bounce"]).out
    by_address = cli("why", "bounce@STUB.test").out

    assert by_id.startswith(f"{letters['bounce']}: failed\n")
    assert "It is failed (rejected). It was refused permanently" in by_id
    assert by_address.startswith("Mail for bounce@STUB.test, 1 in all: 1 failed.\n")
    assert by_id in by_address
    [story] = cli("why", "down@stub.test", "--json").json["items"]
    assert story["delivery_id"] == letters["down"]
    assert "no mail for x@y.z found" in cli("why", "x@y.z", code=1).err


def test_why_names_the_search_for_what_is_neither_id_nor_address(
    cli: Cli, letters: dict[str, str]
) -> None:
    assert cli("why", "key-ok", code=1).err == (
        "homing: no delivery with the id key-ok; to search by key or error: homing search key-ok\n"
    )
    assert "homing search 'two words'\n" in cli("why", "two words", code=1).err
    assert letters["ok"] in cli("search", "key-ok").out


def test_health_is_bad_without_a_worker_and_with_a_paused_route(
    cli: Cli, letters: dict[str, str]
) -> None:
    assert cli("health", code=1).out == (
        "no worker process is alive\nno live worker serves mail: 1 waiting\n"
    )

    cli("pause", "mail", "--reason", "maintenance")

    found = cli("health", "--json", code=1).json
    assert found["problems"][2] == "route mail is paused: maintenance"
    assert "paused routes: mail" in cli("status").out
    cli("resume", "mail", "--reason", "done")
    assert "paused routes: none" in cli("status").out


def test_nothing_of_others_is_obeyed_by_the_terminal(cli: Cli) -> None:
    homing = build(Settings(), worker=False)

    async def fill() -> str:
        async with homing:
            email = Email(to="down@stub.test", subject="S", text="t", metadata={"note": "x"})
            ticket = await homing.submit(email, key=HOSTILE, source=HOSTILE)
            await homing.engine.run_until_idle()
            await homing.ops.annotate(ticket.delivery_id, actor=HOSTILE, note=HOSTILE)
            return ticket.delivery_id

    delivery_id = asyncio.run(fill())

    for words in (
        ["list"],
        ["status"],
        ["show", delivery_id],
        ["attempts", delivery_id],
        ["why", delivery_id],
        ["why", "down@stub.test"],
        ["list", "--source", HOSTILE],
        ["watch", "--count", "1"],
        ["watch", delivery_id, "--count", "1"],
        ["cancel", "--all", "--dry-run"],
    ):
        for more in ([], ["--json"]):
            done = cli(*words, *more)
            assert not {"\x1b", "\x9b", "\u202e"} & {*done.out, *done.err}, words
            assert "\nforged" not in done.out
    assert cli("show", delivery_id, "--json").json["source"] == HOSTILE
    assert "\x1b" not in cli("show", HOSTILE, code=1).err


def test_a_word_of_the_route_is_shown_and_filtered_by(cli: Cli) -> None:
    homing = build(Settings(), worker=False)

    async def read() -> list[tuple[str, int]]:
        async with homing:
            await homing.submit(Email(to="ok@stub.test", subject="S", text="t"))
            await homing.submit(Email(to="bounce@stub.test", subject="S", text="t"))
            await homing.engine.run_until_idle()
            from msgspec.structs import replace

            labels = LabelTable((Label("sent", "delivered"), Label("queued", "pending")))
            homing.engine.routes["mail"] = replace(homing.engine.routes["mail"], labels=labels)
            assert words_of(homing.engine.routes["mail"])[:2] == ["sent", "queued"]
            return [(each.status, each.count) for each in await counts(homing)]

    assert asyncio.run(read()) == [("sent", 1), ("failed", 1)]


def test_config_show_tells_the_sender_that_is_in_force(cli: Cli) -> None:
    rows = {row["name"]: row["value"] for row in cli("config", "show", "--json").json}

    assert rows["sender"] == "homing@stub.test"


def test_config_show_masks_secrets_and_names_origins(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Path("homing.toml").write_text("[routes.mail]\nmax_attempts = 3\n")
    monkeypatch.setenv("HOMING_PROVIDER", "smtp://ann:SECRET@127.0.0.1:2525?tls=none")
    monkeypatch.setenv("HOMING_SENDER", "shop@example.org")

    text = cli("config", "show").out
    rows = {
        row["name"]: (row["value"], row["origin"]) for row in cli("config", "show", "--json").json
    }

    assert "SECRET" not in text
    assert "ann" not in text
    assert rows["provider"] == ("smtp://***@127.0.0.1:2525?tls=none", "HOMING_PROVIDER")
    assert rows["sender"] == ("shop@example.org", "HOMING_SENDER")
    assert rows["routes.mail.max_attempts"] == ("3", "homing.toml")
    assert rows["routes.mail.retry.ladder"] == ("1m, 5m, 30m, 2h, 6h, 12h", "default")
    assert rows["server.port"] == ("8025", "default")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("HOMING_COLOUR", "red", "colour: there is no such setting (from HOMING_COLOUR)"),
        ("HOMING_STORE", "mysql://x", "store: unknown store 'mysql'"),
        ("HOMING_ROUTES__POST__TIMEOUT", "1s", "routes.post: there is no such route"),
        ("HOMING_PROVIDER", "smtp://ann:SECRET@h?tls=odd", "provider: tls: "),
    ],
)
def test_a_refused_start_is_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    if variable == "HOMING_PROVIDER":
        monkeypatch.setenv("HOMING_SENDER", "a@b.c")

    for words in (["status"], ["serve", "--port", "0"], ["worker", "--processes", "2"]):
        err = cli(*words, code=1).err
        assert message in err
        assert "SECRET" not in err
        assert err.count("\n") == 1 + ("Homing on" in err)


def test_listening_to_the_world_needs_a_token(cli: Cli) -> None:
    err = cli("serve", "--host", "0.0.0.0", "--port", "0", code=1).err

    assert "there are no API tokens; make one first" in err


def test_usage_errors_are_exit_code_2_and_help_and_version_are_0(cli: Cli) -> None:
    assert "No such command" in cli("frobnicate", code=2).err
    assert "Missing option" in cli("replay", "x", code=2).err
    assert "Usage" in cli("--help").out
    assert cli("--version").out.strip()


def test_a_fault_of_ours_is_told_by_kind_and_place_only(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*words: object, **more: object) -> None:
        raise ZeroDivisionError("canary of a customer")

    monkeypatch.setattr("homing.plugins.programs.assemble", crash)

    err = cli("status", code=1).err

    assert err.startswith("homing: unexpected: ZeroDivisionError < ")
    assert "canary" not in err


def test_a_missing_extra_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*words: object, **more: object) -> None:
        raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")

    monkeypatch.setattr("homing.plugins.programs.assemble", missing)

    assert (
        cli("status", code=1).err
        == "homing: this needs the extra `web`: pip install 'homing[web]'\n"
    )
