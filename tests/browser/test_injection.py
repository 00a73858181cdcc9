"""What others wrote is shown as text, in every field of every page."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Visitor, visitor
from tests.browser.deliveries import made, until
from tests.browser.pages import all_pages
from tests.browser.payloads import MARK, PAYLOADS
from tests.unit.web.served import Served

SOURCE = "injected"


@pytest.fixture(scope="module")
def shown(served: Served) -> str:
    """The id of a delivery that holds every payload; sixty others have one each."""
    items = [
        {
            "idempotency_key": f"{number} {payload}",
            "to": ["bounce@stub.test"],
            "subject": payload,
            "text": payload,
            "source": SOURCE,
            "metadata": {f"m{number}": payload},
        }
        for number, payload in enumerate(PAYLOADS)
    ]
    answer = served.call("POST", "/api/v1/deliveries/batch", {"items": items})
    for item in answer.json()["items"]:
        until(served, item["delivery_id"], "failed")
    delivery_id = made(
        served,
        "all",
        "delivered",
        subject=PAYLOADS[0],
        text="\n".join(PAYLOADS),
        html="<img src='https://evil.example/x.png'>" + "".join(PAYLOADS),
        source=PAYLOADS[1],
        metadata={f"m{number}": payload for number, payload in enumerate(PAYLOADS[:50])},
        headers={"X-Odd": PAYLOADS[2]},
        attachments=[
            {"filename": "<b>.html", "content_base64": "PGI+", "content_type": "text/html"}
        ],
    )
    for payload in PAYLOADS[:20]:
        body = {"actor": payload, "reason": payload}
        served.call("POST", f"/api/v1/deliveries/{delivery_id}/annotate", body)
    return delivery_id


def assert_harmless(page: Page) -> None:
    assert page.evaluate("window.pwned") is None
    assert page.locator("main script, main base, main meta, main link, main style").count() == 0
    assert page.evaluate("document.baseURI").startswith("http://127.0.0.1")
    # None of the attributes that were tried is on any element.
    handlers = (
        "[onerror],[onload],[onfocus],[ontoggle],[style],[src^='https:'],[href^='javascript']"
    )
    assert page.locator(handlers).count() == 0


@pytest.fixture(scope="module")
def pages(served: Served, store: str, shown: str) -> list[str]:
    """After `shown`, as they leave the route paused; all sixty in each text."""
    return all_pages(served, store, " ".join(PAYLOADS))


def test_sixty_payloads_are_text_on_every_page(
    person: Visitor, shown: str, pages: list[str]
) -> None:
    odd = quote(PAYLOADS[0])
    seen: set[str] = set()
    for path in (
        *pages,
        f"/deliveries?source={SOURCE}",
        f"/deliveries?source={odd}&recipient={odd}&error_class={odd}",
        f"/deliveries/{shown}",
        f"/deliveries/{shown}?view=headers",
        f"/deliveries/{shown}?view=source",
        f"/search?q={odd}",
        f"/address?a={odd}",
        f"/bulk?verb=replay&matching=1&source={SOURCE}",
        f"/bulk/chosen?verb=dismiss&id={shown}&back={odd}",
    ):
        page = person.go(path)
        assert_harmless(page)
        if MARK in page.inner_text("main"):
            seen.add(path)
        if path.startswith("/deliveries?source=injected"):
            assert page.locator("tbody tr").count() == 50
        if path.startswith(f"/deliveries/{shown}"):
            expect(page.locator("h1")).to_have_text(PAYLOADS[0])
    assert {"/", "/failures", "/routes/mail", "/audit", "/outbox"} <= seen
    assert len(seen) > 15
    person.troubles.clear()  # what the policy of a mail's frame refuses, and an unknown delivery


def test_refusals_repeat_nothing_as_code(person: Visitor, shown: str) -> None:
    for path in (f"/deliveries/{quote(PAYLOADS[1], safe='')}", f"/bulk?verb={quote(PAYLOADS[0])}"):
        page = person.go(path)
        assert_harmless(page)
    person.troubles.clear()  # a refusal is an error in the browser's log, too


def test_the_html_of_a_mail_runs_nothing_and_asks_nobody(
    browser: Browser, served: Served, shown: str
) -> None:
    with visitor(browser, served) as person:
        page = person.go(f"/deliveries/{shown}?view=html")
        frame = page.frame_locator("iframe")
        expect(frame.locator("img").first).to_be_attached()
        assert page.evaluate("window.pwned") is None
        # Opened by itself it is as powerless as in its frame.
        page.goto(f"{served.url}/deliveries/{shown}/html")
        assert page.evaluate("document.scripts.length") > 0
        assert page.evaluate("window.pwned") is None
        refused = ("Content Security Policy", "sandbox", "Refused", "Blocked", "ERR_BLOCKED_BY_CSP")
        assert all(any(word in said for word in refused) for said in person.troubles)
        person.troubles.clear()


def test_an_attachment_is_kept_not_shown(served: Served, shown: str) -> None:
    answer = served.call("GET", f"/deliveries/{shown}/files/0")
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''%3Cb%3E.html"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "sandbox" in answer.headers["content-security-policy"]
