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
        assert site.post("/bookings", email="not an address") == 422
        assert site.post("/bookings", email="bob@example.org") == 200
        site.until_sent("ann", "bob")


def use(site: Site) -> None:
    for name in ("ann", "bob"):
        assert site.post("/bookings", email=f"{name}@example.org") == 200
    assert site.post("/reminders", email="cy@example.org") == 200
    site.until_sent("ann", "bob", "cy")


TESTS = """
import httpx2
import pytest
from homing.testing.outbox import Outbox
from fastapi_bookings import app, homing, make_tables

@pytest.mark.asyncio
async def test_a_booking_is_confirmed():
    client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://test")
    async with Outbox(homing) as outbox, make_tables(app), client:
        assert (await client.post("/bookings?email=ann@example.org")).status_code == 200
        await outbox.run()
        assert len(outbox.delivered_to("ann@example.org")) == 1
"""


def test_its_users_can_test_it_on_an_outbox(site: Site) -> None:
    (site.folder / "test_bookings.py").write_text(TESTS)
    assert "1 passed" in site.run("-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert not site.sent()
