"""A real Chromium on the system's own build, and a console to look at."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

from tests.unit.web.served import Served

# A busy machine is slow, and no test may fail for that.
PATIENCE_MS = 60_000
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


@contextmanager
def chromium() -> Iterator[Browser]:
    found = shutil.which("chromium")
    assert found is not None, "make system installs chromium"
    expect.set_options(timeout=PATIENCE_MS)  # which knows nothing of a context's own limits
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class Visitor:
    """One person at a browser; what goes wrong in it is remembered."""

    context: BrowserContext
    page: Page
    served: Served
    troubles: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def go(self, path: str) -> Page:
        self.page.goto(self.served.url + path)
        return self.page

    def text(self) -> str:
        return self.page.inner_text("body")


@contextmanager
def visitor(browser: Browser, served: Served, **options: Any) -> Iterator[Visitor]:
    """At its end the browser has met no script error and has asked no other host."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    context.set_default_navigation_timeout(PATIENCE_MS)
    page = context.new_page()
    person = Visitor(context, page, served)

    def heard(said: ConsoleMessage) -> None:
        if said.type == "error":
            person.troubles.append(said.text)

    def failed(request: Request) -> None:
        # What a policy has blocked was never sent.
        if "csp" not in (request.failure or ""):
            person.hosts.add(urlsplit(request.url).netloc)

    page.on("pageerror", lambda error: person.troubles.append(str(error)))
    page.on("console", heard)
    page.on("response", lambda answer: person.hosts.add(urlsplit(answer.url).netloc))
    page.on("requestfailed", failed)
    try:
        yield person
    finally:
        context.close()
    assert person.hosts <= {served.url.removeprefix("http://"), ""}
    assert person.troubles == []
