"""Signing in, roles, and the end of a session, in a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from homing.domain.message import Email
from homing.engine.access import passwords
from homing.runtime.app import Homing
from tests.browser.axe import findings
from tests.browser.chromium import visitor
from tests.browser.payloads import PAYLOADS
from tests.unit.web.served import Served, homing_serve

T = TypeVar("T")
PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('people')}/homing.db"


@pytest.fixture(scope="module")
def failed(store: str) -> str:
    """A dead letter, beside one person of each role."""

    async def fill() -> str:
        async with Homing(store, provider="stub:", worker=False) as homing:
            for name, role in (("vera", "viewer"), ("otto", "operator")):
                await homing.users.add(name, role, PASSWORD)
            email = Email(to="bounce@stub.test", subject="Private", text="Words")
            return (await homing.send(email)).delivery_id

    # What a password costs is stored with it; the real cost is for guessers.
    cost, passwords.COST = passwords.COST, passwords.Cost(log_n=4, r=1, p=1)
    try:
        return apart(fill())
    finally:
        passwords.COST = cost


@pytest.fixture(scope="module")
def served(store: str, failed: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("served")
    with homing_serve(folder, store=store, server__auth="session") as running:
        yield running


def apart(work: Coroutine[Any, Any, T]) -> T:
    """In a thread of its own: the browser's API has an event loop in this one."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, work).result()


def sign_out_everywhere(store: str, name: str) -> None:
    async def act() -> None:
        async with Homing(store, worker=False) as homing:
            await homing.users.sign_out(name)

    apart(act())


def sign_in(page: Page, name: str, password: str = PASSWORD) -> None:
    page.fill("[name=name]", name)
    page.fill("[name=password]", password)
    page.click("button")


def test_people_sign_in_act_and_sign_out(browser: Browser, served: Served, failed: str) -> None:
    with visitor(browser, served) as person:
        page = person.go(f"/deliveries/{failed}")
        sign_in(page, "otto", "a wrong password")
        expect(page.locator("[role=alert]")).to_contain_text("Wrong name or password")
        sign_in(page, "otto")
        expect(page.locator("h1")).to_have_text("Private")
        page.locator("details.action > summary", has_text="Dismiss").click()
        page.fill("details.action[open] [name=reason]", "as otto")
        page.click("details.action[open] button")
        expect(page.locator(".timeline")).to_contain_text("otto dismissed it")
        cookie = person.context.cookies()[0]
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        page.click("text=Sign out")
        expect(page.locator("h1")).to_have_text("Sign in")
        page.goto(f"{served.url}/deliveries")
        expect(page.locator("h1")).to_have_text("Sign in")
        person.troubles.clear()  # refusals are errors in the browser's log, too


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_sign_in_is_accessible_and_shows_nothing_as_code(
    browser: Browser, served: Served, theme: Literal["light", "dark"]
) -> None:
    with visitor(browser, served, color_scheme=theme) as person:
        page = person.go(f"/sign-in?next={quote(''.join(PAYLOADS))}")
        expect(page.locator("h1")).to_have_text("Sign in")
        assert findings(Axe(), person, {}) == []
        assert page.evaluate("window.pwned") is None
        assert page.locator("main script, main base, main [onerror]").count() == 0


def test_a_session_that_has_ended_leads_to_the_sign_in(
    browser: Browser, served: Served, store: str, failed: str
) -> None:
    with visitor(browser, served) as person:
        page = person.go("/")
        sign_in(page, "otto")
        page.goto(f"{served.url}/deliveries/{failed}")
        sign_out_everywhere(store, "otto")
        # A session that was found good is trusted for two seconds.
        while page.request.get(f"{served.url}/").status != 401:
            page.wait_for_timeout(50)
        page.goto(f"{served.url}/deliveries/{failed}")
        sign_in(page, "otto")
        expect(page.locator("h1")).to_have_text("Private")
        person.troubles.clear()


def test_a_viewer_reads_and_is_offered_no_act(
    browser: Browser, served: Served, failed: str
) -> None:
    with visitor(browser, served) as person:
        page = person.go("/")
        sign_in(page, "vera")
        expect(page.locator("nav >> text=Settings")).to_have_count(0)
        page.goto(f"{served.url}/deliveries/{failed}")
        expect(page.locator(".timeline")).to_be_visible()
        assert page.locator("details.action").count() == 0
        page.goto(f"{served.url}/deliveries")
        assert page.locator("input[name=id]").count() == 0
        page.goto(f"{served.url}/settings")
        expect(page.locator("main")).to_contain_text("role viewer may not administer")
        person.troubles.clear()
