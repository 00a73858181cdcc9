"""The FastAPI example, under uvicorn and under Gunicorn with uvicorn's workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.serving import Site

APP = "fastapi_bookings:app"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, "fastapi_bookings.py")


@pytest.mark.parametrize("options", [(), ("--workers=2",)], ids=["alone", "workers"])
def test_under_uvicorn(site: Site, options: tuple[str, ...]) -> None:
    with site.running("-m", "uvicorn", f"--port={site.port}", *options, APP):
        use(site)


def test_two_tables_of_one_database_stand_or_fall_together(site: Site) -> None:
    with site.running("-m", "uvicorn", f"--port={site.port}", "--log-level=critical", APP):
        assert site.post("/bookings", email="ann@example.org") == 200
        assert site.post("/bookings", email="ann@example.org") == 500
        assert site.post("/bookings", email="not an address") == 500
        assert site.post("/bookings", email="bob@example.org") == 200
        site.until_sent("ann", "bob")


def use(site: Site) -> None:
    for name in ("ann", "bob"):
        assert site.post("/bookings", email=f"{name}@example.org") == 200
    assert site.post("/reminders", email="cy@example.org") == 200
    site.until_sent("ann", "bob", "cy")
