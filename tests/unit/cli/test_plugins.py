"""`homing NAME …` of the plugins that come with Homing, found like a stranger's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from msgspec.structs import replace

from homing.domain.errors import HomingError
from homing.domain.message import Email
from homing.plugins.discovery import Installed, all_installed, load_plugin
from homing.plugins.programs import assemble, load_program
from homing.runtime.app import Homing
from homing.settings.own_names import own_names
from tests.unit.cli.conftest import Cli
from tests.unit.cli.programs import started, until

NAMED = ("bookings", "events", "mail", "reviews", "verdicts")


def test_all_are_registered_and_can_be_loaded() -> None:
    """The default mail service is one of them."""
    assert {entry.name for entry in entry_points(group="homing.plugins")} >= {"default", *NAMED}
    assert all_installed().broken == ()


@pytest.mark.parametrize("name", NAMED)
def test_each_has_the_standard_commands(cli: Cli, name: str) -> None:
    shown = cli(name, "--help").out
    assert f"Usage: homing {name}" in shown
    for command in ("serve", "worker", "list", "replay", "doctor", "migrate", "config"):
        assert f"\n  {command} " in shown, command


@pytest.mark.parametrize("name", NAMED)
def test_its_help_has_its_settings(cli: Cli, name: str) -> None:
    _, _, settings = cli(name, "--help").out.partition("Settings, from the environment:")
    for variable, own in own_names(load_plugin(name).settings).items():
        assert variable in settings
        assert own.about.split()[0] in settings
    assert "homing config show" in " ".join(settings.split())


def test_the_default_service_needs_no_name(cli: Cli) -> None:
    assert "default" not in cli("--help").out.split("Plugins:")[1]
    assert "No such command" in cli("default", "serve", code=2).err


@pytest.mark.parametrize("name", ["bookings", "reviews"])
def test_its_worker_runs(tmp_path: Path, name: str) -> None:
    with started(tmp_path, ["-m", "homing", name, "worker"]) as worker:
        until(lambda: "Homing worker is running" in worker.said(), what=worker.log.name)
        assert worker.stop() == 0


def test_a_worker_that_lacks_what_it_needs_names_it(cli: Cli) -> None:
    assert "MAIL_TEMPLATE_DIR" in cli("mail", "worker", code=1).err
    assert "GRAPH_ENV_FILE" in cli("verdicts", "worker", code=1).err


def test_settings_of_any_known_route_are_accepted(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file may serve several programs; a route that is known to none is refused."""
    monkeypatch.setenv("HOMING_ROUTES__BOOKINGS__MAX_ATTEMPTS", "3")
    cli("migrate")
    cli("status")
    shown = cli("bookings", "config", "show").out
    assert "routes.bookings.max_attempts" in shown
    monkeypatch.setenv("HOMING_ROUTES__POST__MAX_ATTEMPTS", "3")
    assert "routes.post: there is no such route" in cli("status", code=1).err


@pytest.fixture
def twin_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Installs a second plugin with the same queue; returns its problem."""

    def install(name: str) -> str:
        installed = all_installed()
        [first] = [each for each in installed.plugins if each.name == name]
        two = Installed((*installed.plugins, replace(first, name="twin")), ())
        monkeypatch.setattr("homing.plugins.known.all_installed", lambda: two)
        return f"the plugins {name} and twin both own the queue "

    return install


@pytest.fixture
def never_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is not refused ends here with another exit code, not in an endless test."""

    async def start(homing: Homing) -> None:
        del homing
        raise HomingError("it has started")

    monkeypatch.setattr(Homing, "start", start)


def test_a_queue_of_two_plugins_is_told_to_who_reads(
    cli: Cli, twin_of: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    """By `doctor` as a finding, by the other commands as a warning."""
    told = twin_of("bookings") + "'bookings'"
    cli("bookings", "migrate")

    findings = cli("bookings", "doctor", "--json", code=1).json["findings"]
    caplog.clear()
    for words in (["list"], ["bookings", "list"], ["bookings", "config", "show"]):
        cli(*words)

    [problem] = [each["detail"] for each in findings if each["check"] == "plugin"]
    assert problem.startswith(told)
    assert {"store", "worker"} <= {each["check"] for each in findings}
    assert caplog.messages.count(problem) == 3


@pytest.mark.usefixtures("never_started")
@pytest.mark.parametrize(
    "words",
    [
        ("serve",),
        ("worker",),
        ("worker", "--once"),
        ("worker", "--processes", "2"),
    ],
)
def test_a_queue_of_two_plugins_is_refused_to_who_works_on_it(
    cli: Cli, twin_of: Callable[[str], str], words: tuple[str, ...], tmp_path: Path
) -> None:
    """One would handle the deliveries of the other."""
    problem = twin_of("bookings") + "'bookings'"
    assert problem in cli("bookings", *words, code=2).err
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.usefixtures("never_started")
def test_a_service_that_only_accepts_is_refused_a_shared_queue(
    cli: Cli, twin_of: Callable[[str], str]
) -> None:
    problem = twin_of("default") + "'mail'"

    assert problem in cli("serve", "--no-worker", code=2).err
    assert problem in cli("send", "--to", "a@stub.test", "--text", "t", "--queue", code=2).err


@pytest.mark.usefixtures("never_started")
def test_the_worker_of_an_application_is_refused_the_shared_queue_of_its_plugin(
    cli: Cli, twin_of: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    problem = twin_of("events") + "'events'"
    (tmp_path / "shop_app.py").write_text("from homing import Homing\nhoming = Homing('memory:')\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert problem in cli("events", "worker", "--app", "shop_app:homing", code=2).err


def test_work_that_no_worker_serves_names_the_command_of_its_plugin(cli: Cli) -> None:
    homing = assemble(load_program(load_plugin("bookings"), reading=True), worker=False)

    async def submit() -> str:
        async with homing:
            ticket = await homing.submit(
                Email(to="ok@stub.test", subject="S", text="t"), route="bookings"
            )
            return ticket.delivery_id

    delivery_id = asyncio.run(submit())

    assert "start one (homing bookings worker)." in cli("why", delivery_id).out
    assert "start one (homing bookings worker)." in cli("bookings", "why", delivery_id).out
