"""Every page in both themes: no serious finding of axe-core, light to load, nothing sticks out."""

from __future__ import annotations

from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from tests.browser.axe import findings
from tests.browser.chromium import visitor
from tests.browser.deliveries import made
from tests.browser.pages import all_pages
from tests.unit.web.served import Served

MAX_PAGE_BYTES = 100_000


@pytest.fixture(scope="module")
def pages(served: Served, store: str) -> list[str]:
    return all_pages(served, store)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_finding_on_any_page(
    browser: Browser, served: Served, pages: list[str], theme: Literal["light", "dark"]
) -> None:
    axe = Axe()
    width = 1280 if theme == "light" else 390
    # The two themes differ in their colours alone.
    rules = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
    options = {"runOnly": rules} if theme == "dark" else {}
    found: dict[str, list[str]] = {}
    viewport = {"width": width, "height": 900}
    with visitor(browser, served, color_scheme=theme, viewport=viewport) as person:
        for path in pages:
            page = person.go(path)
            if problems := findings(axe, person, options):
                found[path] = problems
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        person.troubles.clear()  # the page of an unknown delivery is a 404
    assert found == {}


def test_every_page_is_light_and_keeps_its_policy(served: Served, pages: list[str]) -> None:
    long = made(
        served,
        "long",
        "pending",
        text="word " * 30_000,
        html="<p>word</p>" * 10_000,
        send_at="2096-10-02T07:06:40Z",
    )
    static = sum(
        len(served.call("GET", f"/static/{name}").body)
        for name in ("console.css", "console.js", "icon.svg")
    )
    for path in (*pages, f"/deliveries/{long}"):
        answer = served.call("GET", path)
        assert static + len(answer.body) <= MAX_PAGE_BYTES, path
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "http" not in policy
        text = answer.body.decode()
        assert "<style" not in text
        assert "style=" not in text
        assert text.count("<script") == 1
