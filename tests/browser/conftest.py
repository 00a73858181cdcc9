"""One browser and one service for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import Visitor, chromium, visitor
from tests.servers import postgres
from tests.unit.web.served import Served, homing_serve

# Retries within a second, and a doubtful send waits for a person.
SETTINGS = {
    "routes__mail__retry__ladder": '["1s"]',
    "routes__mail__max_attempts": "2",
    "routes__mail__on_unknown": "hold",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """SQLite, unless a file asks for other stores by parameters."""
    if getattr(request, "param", "sqlite") == "postgresql":
        with postgres() as server:
            yield server.url
    else:
        yield f"sqlite:///{tmp_path_factory.mktemp('store')}/homing.db"


@pytest.fixture(scope="module")
def served(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("console")
    with homing_serve(folder, store=store, **SETTINGS) as running:
        yield running


@pytest.fixture
def person(browser: Browser, served: Served) -> Iterator[Visitor]:
    with visitor(browser, served) as one:
        yield one
