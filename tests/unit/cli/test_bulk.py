"""`replay`, `dismiss` and `cancel` on many deliveries: counted, predicted, done."""

from __future__ import annotations

import asyncio

import pytest

from homing.domain.message import Email
from homing.plugins.programs import build
from homing.settings import RouteSettings, Settings
from tests.unit.cli.conftest import Cli

WHY = ("--reason", "asked for", "--actor", "ann")


@pytest.fixture
def many(cli: Cli) -> list[str]:
    """25 dead letters, a pending one that may have been sent, and one that was not."""
    mail = RouteSettings(on_unknown="hold", max_attempts=2)
    homing = build(Settings(routes={"mail": mail}), worker=False)

    async def fill() -> list[str]:
        ids = []
        async with homing:
            for number in range(25):
                email = Email(to="bounce@stub.test", subject=f"S {number}", text="t")
                ids.append((await homing.submit(email, source="shop")).delivery_id)
            for name in ("maybe", "down"):
                email = Email(to=f"{name}@stub.test", subject="S", text="t")
                ids.append((await homing.submit(email, source="crm")).delivery_id)
            await homing.engine.run_until_idle()
        return ids

    return asyncio.run(fill())


def statuses(cli: Cli) -> dict[str, int]:
    return {each["status"]: each["count"] for each in cli("status", "--json").json["counts"]}


@pytest.mark.usefixtures("many")
def test_a_dry_run_counts_and_predicts_and_changes_nothing(cli: Cli) -> None:
    before = statuses(cli)

    said = cli("replay", "--filter", "error-class=recipient_refused", "--dry-run")
    found = cli("dismiss", "--filter", "source=shop", "--dry-run", "--json").json

    assert said.out.startswith("replay: 25 matched; nothing was changed; would be: 25 pending\n")
    assert said.out.count(" failed  pending\n") == 20
    assert "(and 5 more; --json has all)" in said.err
    assert (found["verb"], found["dry_run"], found["matched"]) == ("dismiss", True, 25)
    assert {item["becomes"] for item in found["items"]} == {"dismissed"}
    assert len(found["items"]) == 25
    assert statuses(cli) == before


def test_many_are_replayed_with_actor_and_reason(cli: Cli, many: list[str]) -> None:
    chosen = ("--filter", "error_class=recipient_refused", "--filter", "source=shop")

    said = cli("replay", *chosen, "--per-second", "1000", *WHY).out

    assert said == "replay: 25 of 25 done\n"
    audit = cli("show", many[3], "--json").json["audit"]
    assert [(a["verb"], a["actor"], a["reason"]) for a in audit] == [("replay", "ann", "asked for")]
    assert cli("replay", *chosen, *WHY).out == "replay: 0 of 0 done\n"


def test_uncertain_ones_are_asked_for_by_name(cli: Cli, many: list[str]) -> None:
    uncertain = many[25]
    assert cli("cancel", uncertain, *WHY).out == f"cancel: {uncertain} is failed (uncertain)\n"

    assert cli("dismiss", "--all", *WHY).out == "dismiss: 25 of 25 done\n"
    for only_uncertain in (("--all", *WHY), ("--all", "--dry-run")):
        said = cli("replay", *only_uncertain).err
        assert "1 uncertain left out" in said
        assert "--filter reason=uncertain" in said
    assert cli("show", uncertain, "--json").json["status"] == "failed"
    done = cli("dismiss", "--filter", "reason=uncertain", *WHY, "--json").json
    assert (done["matched"], done["done"], done["state"]) == (1, 1, "done")


def test_cancel_chooses_what_has_not_ended_and_says_cancelled(cli: Cli, many: list[str]) -> None:
    said = cli("cancel", "--all", "--dry-run").out

    assert said.startswith(
        "cancel: 2 matched; nothing was changed; would be: 1 cancelled, 1 failed (uncertain)\n"
    )
    assert cli("cancel", "--filter", "route=mail", *WHY).out == "cancel: 2 of 2 done\n"
    assert "cancelled by a person" in cli("why", many[26]).out


@pytest.mark.usefixtures("many")
def test_a_limit_is_kept(cli: Cli) -> None:
    assert cli("dismiss", "--all", "--limit", "3", *WHY).out == "dismiss: 3 of 25 done\n"
    assert statuses(cli)["dismissed"] == 3


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["replay", *WHY], "give an ID, --filter or --all"),
        (["replay", "x", "--all", *WHY], "give an ID, --filter or --all"),
        (["replay", "--all", "--filter", "route=mail", *WHY], "give an ID, --filter or --all"),
        (["replay", "--all"], "Missing option '--reason' / '-r'"),
        (["replay", "x", "--dry-run"], "--dry-run is for --filter and --all"),
        (["replay", "--filter", "key=a", "--filter", "key=b", *WHY], "key is given twice"),
    ],
)
def test_wrong_usage(cli: Cli, letters: dict[str, str], words: list[str], problem: str) -> None:
    assert problem in cli(*words, code=2).err
