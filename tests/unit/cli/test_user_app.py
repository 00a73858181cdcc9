"""`homing worker --app module:name`: a library user's own handlers and jobs, in real processes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from homing import Event, Homing, Job
from tests.unit.cli.programs import run, started, until

# It only accepts, and says so: the worker is another process.
APP = """\
import os
from pathlib import Path

from homing import Homing

outbox = Homing("sqlite:///shop.db", worker=False, generation=7)


def note(text):
    with Path("done.txt").open("a") as file:
        file.write(f"{text} by {os.getpid()}\\n")


@outbox.on("invoice.paid")
async def book(event):
    note(f"booked {event.data['number']}")


@outbox.job("report", stages=("collect", "print"))
class Report:
    async def collect(self, job):
        return {"pages": 3}

    async def print(self, job):
        note(f"printed {job.results['collect']['pages']} pages")
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def submit(folder: Path, *messages: Event | Job, generation: int = 0) -> None:
    """As the shop does: accepted by a process that works on nothing."""

    async def accept() -> None:
        homing = Homing(f"sqlite:///{folder}/shop.db", worker=False, generation=7)
        homing.job("report", stages=("collect", "print"))(_Elsewhere)
        async with homing:
            for message in messages:
                await homing.submit(message, generation=generation)

    asyncio.run(accept())


class _Elsewhere:
    def collect(self, job: object) -> None: ...

    def print(self, job: object) -> None: ...


def done(folder: Path, number: int) -> list[str]:
    """What was done, once that much is done."""
    path = folder / "done.txt"
    lines: list[str] = until(
        lambda: path.exists() and len(found := path.read_text().splitlines()) >= number and found,
        what="the work",
    )
    return [line.partition(" by ")[0] for line in lines]


def test_handlers_and_jobs_run_on_the_apps_own_store(shop: Path) -> None:
    submit(shop, Event("invoice.paid", {"number": 42}), Job("report"))

    with started(shop, ["-m", "homing", "worker", "--app", "shop:outbox"]) as worker:
        assert sorted(done(shop, 2)) == ["booked 42", "printed 3 pages"]
        assert worker.stop() == 0
    assert not (shop / "homing.db").exists()


def test_several_processes_of_another_generation(shop: Path) -> None:
    """Work that asks for a generation is done by workers of that one alone."""
    submit(shop, *(Event("invoice.paid", {"number": n}) for n in range(20)), generation=8)

    command = ["-m", "homing", "worker", "--app", "shop:outbox", "--generation", "8"]
    with started(shop, [*command, "--processes", "2"]) as workers:
        assert sorted(done(shop, 20)) == sorted(f"booked {n}" for n in range(20))
        # One that is stopped before it runs is ended by the signal itself.
        until(lambda: workers.said().count("Homing worker is running") == 2, what="two workers")
        assert workers.stop() == 0


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("shopp:outbox", "looked for module 'shopp' in "),
        ("shop:inbox", "module 'shop' has no 'inbox'"),
        ("shop", "module 'shop' has no 'homing'"),
        ("shop:note", "'note' of module 'shop' is a function, not a Homing"),
        (":outbox", "name a module, such as shop.mail:homing"),
        ("broken:outbox", "module 'broken' cannot be imported: No module named 'gone'"),
        ("wrong:outbox", "module 'wrong' cannot be imported: ZeroDivisionError"),
    ],
)
def test_a_wrong_place_is_usage_and_says_what_was_looked_for(
    shop: Path, place: str, problem: str
) -> None:
    (shop / "broken.py").write_text("import gone\n")
    (shop / "wrong.py").write_text("1 / 0\n")

    told = " ".join(run(shop, "worker", "--app", place, code=2).stderr.split())

    assert problem in told


def test_the_options_that_need_an_app(shop: Path) -> None:
    assert "--generation needs --app" in run(shop, "worker", "--generation", "3", code=2).stderr
    refused = run(shop, "bookings", "worker", "--app", "shop", code=2).stderr
    assert "--app is not for bookings" in refused


def test_readers_and_verbs_know_the_jobs_of_an_app(shop: Path) -> None:
    """Without it a job of an application can only be read."""
    submit(shop, Job("report", {"year": 2026}))
    [job] = json.loads(run(shop, "list", "--app", "shop:outbox", "--json").stdout)["items"]
    store, why = "sqlite:///shop.db", ("-r", "not needed")

    refused = run(shop, "cancel", job["delivery_id"], *why, "--store", store, code=1).stderr
    told = run(shop, "why", job["delivery_id"], "--app", "shop:outbox").stdout
    done = run(shop, "cancel", job["delivery_id"], *why, "--app", "shop:outbox").stdout

    assert "there is no route 'report' here" in refused
    assert "--app MODULE:NAME" in refused
    assert "start one (homing worker --app MODULE:NAME)" in told
    assert done == f"cancel: {job['delivery_id']} is cancelled\n"
    assert not (shop / "done.txt").exists()


def test_the_name_that_is_taken_is_said(shop: Path) -> None:
    (shop / "shop.py").write_text(APP.replace("outbox", "homing"))
    submit(shop)

    done = run(shop, "status", "--app", "shop")

    assert "--app shop: using shop:homing" in done.stderr
    assert "without a NAME the one called" in " ".join(run(shop, "worker", "--help").stdout.split())


def test_an_app_has_its_own_store_and_settings(shop: Path) -> None:
    both = ("--app", "shop:outbox", "--store", "sqlite:///x.db")
    assert "give either --store or --app" in run(shop, "list", *both, code=2).stderr
    said = run(shop, "serve", "--app", "shop:outbox", code=2).stderr
    assert "this command works with what is set" in " ".join(said.split())
    lost = run(shop, "list", "--app", "shop:outbox", code=2).stderr
    assert f"the store {shop}/shop.db does not exist" in lost
