"""The Flask example, under Gunicorn and beside its worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.serving import Site
from tests.servers import HOST

# As an application that sends while it is loaded: with --preload that is before the fork.
SENDS_AT_IMPORT = """
from flask_bookings import app, homing
from homing import Email
homing.sync.submit(Email(to="import@example.org", subject="Hi", text="Hi"), key="import")
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, "flask_bookings.py")


def gunicorn(site: Site, app: str, *options: str) -> list[str]:
    bind = f"--bind={HOST}:{site.port}"
    return ["-m", "gunicorn", bind, "--workers=2", "--threads=2", *options, app]


@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["plain", "preload"])
def test_web_processes_deliver_whatever_was_used_before_the_fork(
    site: Site, options: tuple[str, ...]
) -> None:
    (site.folder / "eager.py").write_text(SENDS_AT_IMPORT)
    with site.running(*gunicorn(site, "eager:app", *options), BOOKINGS_WORKER="1"):
        for name in ("ann", "bob", "cy", "dan"):
            assert site.post("/bookings", email=f"{name}@example.org") == 200
        assert site.post("/bookings", email="ann@example.org") == 500
        assert site.post("/reminders", email="eve@example.org") == 200
        site.until_sent("import", "ann", "bob", "cy", "dan", "eve")


def test_a_worker_of_its_own_delivers(site: Site) -> None:
    worker = ("-m", "flask", "--app", "flask_bookings", "homing-worker")
    with site.running(*gunicorn(site, "flask_bookings:app")):
        assert site.post("/bookings", email="ann@example.org") == 200
        assert site.post("/reminders", email="bob@example.org") == 200
        assert site.post("/bookings", email="no address") == 422
        assert not site.sent()
        with site.running(*worker, answers=False):
            site.until_sent("ann", "bob")
