"""The Django example, under Gunicorn and runserver, with the worker of its own command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.serving import Site
from tests.servers import HOST

WORKER = ("manage.py", "homing_worker")


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = Site(tmp_path_factory.mktemp("django"), "django_bookings")
    site.run("manage.py", "migrate", "--run-syncdb", "--verbosity=0")
    return site.folder


@pytest.fixture
def site(tmp_path: Path, migrated: Path) -> Site:
    return Site(tmp_path, migrated)


def gunicorn(site: Site, *options: str) -> list[str]:
    bind = f"--bind={HOST}:{site.port}"
    return ["-m", "gunicorn", bind, "--workers=2", "--threads=2", *options, "bookings.wsgi"]


@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["plain", "preload"])
def test_the_first_call_inside_atomic_succeeds(site: Site, options: tuple[str, ...]) -> None:
    """No process has opened the store before, and none has made its tables."""
    with site.running(*gunicorn(site, *options)):
        assert site.post("/bookings", email="ann@example.org") == 200
        assert site.post("/bookings", email="lost@example.org", fail="1") == 500
        assert site.post("/reminders", email="bob@example.org") == 200
        with site.running(*WORKER, answers=False):
            assert site.post("/bookings", email="cy@example.org") == 200
            site.until_sent("ann", "bob", "cy")


@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["plain", "preload"])
def test_web_processes_can_deliver_too(site: Site, options: tuple[str, ...]) -> None:
    with site.running(*gunicorn(site, *options), BOOKINGS_WORKER="1"):
        for name in ("ann", "bob", "cy"):
            assert site.post("/bookings", email=f"{name}@example.org") == 200
        site.until_sent("ann", "bob", "cy")


def test_under_runserver(site: Site) -> None:
    command = ("manage.py", "runserver", "--noreload", f"{HOST}:{site.port}")
    with site.running(*command, BOOKINGS_WORKER="1"):
        assert site.post("/bookings", email="ann@example.org") == 200
        assert site.post("/reminders", email="bob@example.org") == 200
        site.until_sent("ann", "bob")


def test_the_example_passes_its_checks(site: Site) -> None:
    assert "no issues" in site.run("manage.py", "check")
