"""The booking page, the dashboard and the email queue in a real browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, async_playwright, expect

from homing.assemblies.bookings.app.settings import BookingsSettings
from homing.runtime.clock import SystemClock
from homing.stores.layout import iso_utc
from homing.testing.clocks import ManualClock
from homing.web.access.login_limits import FAILURES
from tests.conformance.bookings.pages import (
    REFRESH_MS,
    App,
    book,
    failed,
    fill_booking,
    log_in,
    pending,
    serving,
    silent_smtp,
    visiting,
)
from tests.conformance.bookings.site import Site
from tests.servers import free_port, smtp_sink
from tests.unit.cli.programs import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUEUE = "/admin/email-queue"
LOGIN = "/admin/login"
STATES = {
    "healthy": [],
    "pending": [pending("ann")],
    "failed": [failed("bob")],
    "mixed": [pending("ann"), failed("bob")],
}
SCRIPT = files("homing.assemblies.bookings.app").joinpath("static/app.js").read_text()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield launched
        await launched.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """With a mail server that never answers: nothing that is queued is sent or fails."""
    with silent_smtp() as smtp, serving(tmp_path_factory.mktemp("app"), smtp) as app:
        yield app


@pytest.fixture
def app(served: App) -> App:
    served.clear()
    return served


def row_of(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has_text=f"{name}@example.org")


async def test_a_booking_is_confirmed_and_its_mail_leaves_no_row(
    browser: Browser, tmp_path: Path
) -> None:
    """B-104"""
    with smtp_sink() as smtp, serving(tmp_path, f"{smtp.url}?tls=none") as app:
        async with visiting(browser, app) as page:
            await book(page, title="Tea & <b>cake</b>")
            await expect(page.get_by_role("heading", name="The meeting is booked")).to_be_visible()
            await expect(page.get_by_text("Tea & <b>cake</b>")).to_be_visible()
            until(lambda: smtp.messages() == 1, what="the mail")
            await log_in(page)
            await page.goto(QUEUE)
            await expect(page.get_by_text("The queue is empty")).to_be_visible()
        assert app.rows() == []


async def test_a_booking_with_the_mail_server_down_is_shown_as_pending(
    browser: Browser, tmp_path: Path
) -> None:
    """B-001, B-105"""
    closed = f"smtp://127.0.0.1:{free_port()}?tls=none"
    with serving(tmp_path, closed) as app:
        async with visiting(browser, app) as page:
            await book(page)
            await expect(page.get_by_role("heading", name="The meeting is booked")).to_be_visible()
            [row] = until(app.rows, what="the row")
            assert (row["status"], row["attempts"]) == ("pending", 0)
            await log_in(page)
            await page.goto(QUEUE)
            await expect(row_of(page, "ann")).to_contain_text("Intro call")
            await expect(row_of(page, "ann").get_by_text("pending")).to_be_visible()


async def test_a_booking_does_not_wait_for_a_silent_mail_server(browser: Browser, app: App) -> None:
    """B-111"""
    async with visiting(browser, app) as page:
        await book(page)
        await expect(page.get_by_role("heading", name="The meeting is booked")).to_be_visible()
    assert app.rows() == []  # the first attempt has no outcome yet


async def test_wrong_fields_are_named_where_they_are(browser: Browser, app: App) -> None:
    async with visiting(browser, app) as page:
        await page.goto("/")
        await page.get_by_label("Your name").fill("Ann")
        await page.get_by_label("Email address").fill("ann@")
        await page.get_by_role("button", name="Book the meeting").click()

        await expect(page.get_by_role("alert")).to_be_focused()
        email = page.get_by_label("Email address")
        await expect(email).to_have_accessible_description(re.compile("full email address"))
        await expect(email).to_have_value("ann@")
        await expect(page.locator("#start-error")).to_have_text("Choose a time.")
        await expect(page.locator("#name-error")).to_have_count(0)
        await page.get_by_role("alert").get_by_role("link", name="full email").click()
        await expect(email).to_be_focused()


async def test_a_slot_that_was_taken_meanwhile_is_refused(browser: Browser, app: App) -> None:
    async with visiting(browser, app) as first, visiting(browser, app) as second:
        await fill_booking(first)
        await book(second)
        await expect(second.get_by_role("heading", name="The meeting is booked")).to_be_visible()
        await first.get_by_role("button", name="Book the meeting").click()

        await expect(first.locator("#start-error")).to_contain_text("not free any more")
        await expect(first.get_by_label("Your name")).to_have_value("Ann Lee")
        await expect(first.locator(".slot").first.locator("input")).to_be_disabled()


async def test_the_sidebar_leads_to_the_queue(browser: Browser, app: App) -> None:
    """B-090"""
    async with visiting(browser, app) as page:
        await page.goto(QUEUE)
        await expect(page).to_have_url(re.compile("/admin/login$"))
        await log_in(page)
        await page.get_by_role("navigation").get_by_role("link", name="Email queue").click()
        await expect(page.get_by_role("heading", name="Email queue")).to_be_visible()
        current = page.get_by_role("navigation").locator("[aria-current=page]")
        await expect(current).to_have_text("Email queue")
        await page.get_by_role("button", name="Log out").click()
        await page.goto(QUEUE)
        await expect(page).to_have_url(re.compile("/admin/login$"))


async def test_a_wrong_password_is_said_at_the_field(browser: Browser, app: App) -> None:
    async with visiting(browser, app) as page:
        await page.goto("/admin/login")
        await page.get_by_label("Password").fill("guess")
        await page.get_by_role("button", name="Log in").click()
        field = page.get_by_label("Password")
        await expect(field).to_have_accessible_description("This password is wrong.")


async def test_the_card_has_three_looks(browser: Browser, app: App) -> None:
    """B-086"""
    looks = []
    async with visiting(browser, app) as page:
        card = page.get_by_role("link", name="Email queue").filter(has_text="pending")
        await log_in(page)
        for added in ([], [pending("ann")], [failed("bob")]):
            await app.insert(*added)
            await page.goto("/admin")
            style = (
                "card => { const s = getComputedStyle(card); return s.backgroundColor + s.color }"
            )
            looks.append(await card.evaluate(style))
        await card.click()
        await expect(page).to_have_url(re.compile(f"{QUEUE}$"))
    assert len(set(looks)) == 3


async def test_the_card_follows_the_dashboard_endpoint(browser: Browser, app: App) -> None:
    """B-005, B-109"""
    async with visiting(browser, app) as page:
        await page.clock.install()
        await log_in(page)
        card = page.locator(".card")
        await expect(card).to_have_attribute("data-state", "healthy")
        await app.insert(pending("ann"), pending("eve"), failed("bob"))
        async with page.expect_response("**/api/admin/dashboard"):
            await page.clock.fast_forward(REFRESH_MS)
        await expect(card.locator(".pending")).to_have_text("2 pending")
        await expect(card.locator(".failed")).to_have_text("1 failed")
        await expect(card).to_have_attribute("data-state", "mixed")


@pytest.mark.parametrize("state", STATES)
async def test_the_queue_shows_its_state(browser: Browser, app: App, state: str) -> None:
    """B-087, B-091"""
    await app.insert(*STATES[state])
    async with visiting(browser, app) as page:
        await log_in(page)
        await page.goto(QUEUE)
        await expect(page.locator("[data-live]")).to_have_attribute("data-state", state)
        await expect(page.get_by_text("The queue is empty")).to_be_visible(
            visible=state == "healthy"
        )
        await expect(page.get_by_role("table")).to_be_visible(visible=state != "healthy")
        await expect(page.locator(".summary:visible")).to_have_count(int(state != "healthy"))
        await expect(page.locator("tbody tr")).to_have_count(len(STATES[state]))


async def test_only_failed_rows_have_buttons(browser: Browser, app: App) -> None:
    """B-088"""
    await app.insert(pending("ann"), failed("bob"))
    async with visiting(browser, app) as page:
        await log_in(page)
        await page.goto(QUEUE)
        await expect(row_of(page, "ann").get_by_role("button")).to_have_count(0)
        await expect(row_of(page, "bob").get_by_role("button")).to_have_text(
            [re.compile("Retry"), re.compile("Dismiss")]
        )


async def test_retry_starts_over(browser: Browser, app: App) -> None:
    """B-110"""
    await app.insert(failed("bob"))
    began_ms = SystemClock().now_ms()
    async with visiting(browser, app) as page:
        await log_in(page)
        await page.goto(QUEUE)
        await row_of(page, "bob").get_by_role("button", name="Retry").click()
        await expect(page.get_by_role("status")).to_have_text("The email is tried again.")
        await expect(row_of(page, "bob").get_by_text("pending")).to_be_visible()
        await expect(row_of(page, "bob")).to_contain_text("0 of 5")
        await expect(row_of(page, "bob").get_by_role("button")).to_have_count(0)
        await expect(page.locator("[data-live]")).to_have_attribute("data-state", "pending")
        await expect(page.get_by_role("heading", name="Email queue")).to_be_focused()
    [row] = app.rows()
    assert [row[name] for name in ("status", "attempts", "max_attempts", "last_error")] == [
        "pending",
        0,
        5,
        None,
    ]
    assert iso_utc(began_ms) <= row["next_retry_at"] <= iso_utc(SystemClock().now_ms())


async def test_dismiss_asks_first_and_then_removes(browser: Browser, app: App) -> None:
    """B-110"""
    await app.insert(failed("bob"), failed("eve"))
    async with visiting(browser, app) as page:
        await log_in(page)
        await page.goto(QUEUE)
        await row_of(page, "bob").get_by_role("button", name="Dismiss").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("bob@example.org")
        await page.keyboard.press("Escape")
        await expect(dialog).to_be_hidden()
        assert len(app.rows()) == 2

        await row_of(page, "bob").get_by_role("button", name="Dismiss").click()
        await dialog.get_by_role("button", name="Dismiss").click()
        await expect(row_of(page, "bob")).to_have_count(0)
        await expect(page.get_by_role("status")).to_have_text("The email is dismissed.")
        await expect(row_of(page, "eve").get_by_role("button", name="Retry")).to_be_focused()
    assert [row["id"] for row in app.rows()] == ["eve"]


async def test_a_refused_action_says_why(browser: Browser, app: App) -> None:
    await app.insert(failed("bob"))
    async with visiting(browser, app) as page, visiting(browser, app) as other:
        for each in (page, other):
            await each.clock.install()  # and stays: nothing is refreshed meanwhile
            await log_in(each)
            await each.goto(QUEUE)
        await row_of(other, "bob").get_by_role("button", name="Retry").click()
        await expect(row_of(other, "bob").get_by_text("pending")).to_be_visible()
        await row_of(page, "bob").get_by_role("button", name="Retry").click()
        await expect(page.get_by_role("alert")).to_have_text("This email is not failed any more.")


async def test_the_list_is_refreshed_in_place(browser: Browser, app: App) -> None:
    await app.insert(failed("bob"))
    async with visiting(browser, app) as page:
        await page.clock.install()
        await log_in(page)
        await page.goto(QUEUE)
        retry = row_of(page, "bob").get_by_role("button", name="Retry")
        await retry.focus()
        await app.insert(pending("ann", created_at="2026-02-24T10:00:00.000Z"))
        async with page.expect_response("**/api/admin/outbox"):
            await page.clock.fast_forward(REFRESH_MS)
        await expect(row_of(page, "ann")).to_be_visible()
        await expect(page.locator("tbody tr").first).to_contain_text("ann@example.org")
        await expect(retry).to_be_focused()


async def test_a_server_that_is_gone_is_noticed(browser: Browser, app: App) -> None:
    async with visiting(browser, app) as page:
        await page.clock.install()
        await log_in(page)
        await page.goto(QUEUE)
        await page.context.set_offline(offline=True)
        await page.clock.fast_forward(REFRESH_MS)
        await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        await page.context.set_offline(offline=False)
        await page.clock.fast_forward(REFRESH_MS)
        await expect(page.get_by_role("alert")).to_be_hidden()


GOOD = {
    "id": "1",
    "toAddress": "ann@example.org",
    "subject": "Booked",
    "status": "pending",
    "attempts": 0,
    "maxAttempts": 5,
    "nextRetryAt": "2026-02-23T10:00:30.000Z",
    "lastError": None,
    "createdAt": "2026-02-23T10:00:00.000Z",
}
COUNTS = {"pendingEmailCount": 2, "failedEmailCount": 1}


async def decoded(page: Page, function: str, value: object) -> Any:
    """What a decoder of the script gives, or the message of its error."""
    return await page.evaluate(
        """async ([name, value]) => {
            const script = await import("/static/app.js");
            try { return script[name](value); } catch (error) { return error.message; }
        }""",
        [function, value],
    )


async def test_the_script_decodes_what_the_server_answers(browser: Browser, app: App) -> None:
    """B-084, B-085, B-098"""
    async with visiting(browser, app) as page:
        await page.goto("/")
        for status in ("pending", "failed"):
            entry = {**GOOD, "status": status}
            assert await decoded(page, "decodeEntries", [entry]) == [entry]
        assert await decoded(page, "decodeDashboard", COUNTS) == {"pending": 2, "failed": 1}

        for wrong in ({"status": "sent"}, {"attempts": "1"}, {"subject": None}, {"lastError": 5}):
            [name] = wrong
            message = await decoded(page, "decodeEntry", {**GOOD, **wrong})
            assert f"not understood: {name} is" in message
        assert "not understood" in await decoded(page, "decodeEntries", {"entries": []})
        assert "not understood" in await decoded(page, "decodeDashboard", {"pendingEmailCount": 1})


async def test_messages_of_the_script_are_named_in_the_past_tense() -> None:
    """B-089"""
    for name in ("outboxEntriesReceived", "retryClicked", "retryCompleted"):
        assert name in SCRIPT
    for name in ("dismissClicked", "dismissConfirmed", "dismissCompleted", "dashboardReceived"):
        assert name in SCRIPT


async def test_everything_works_without_script(browser: Browser, app: App) -> None:
    await app.insert(failed("bob"), failed("eve"))
    async with visiting(browser, app, java_script_enabled=False) as page:
        await book(page)
        await expect(page.get_by_role("heading", name="The meeting is booked")).to_be_visible()
        await log_in(page)
        await page.get_by_role("button", name="Cancel").click()
        await page.get_by_role("button", name="Cancel the meeting").click()
        await expect(page.get_by_role("status")).to_contain_text("The meeting is cancelled.")
        await expect(page.get_by_text("No meeting is booked.")).to_be_visible()

        await page.goto(QUEUE)
        await row_of(page, "bob").get_by_role("button", name="Retry").click()
        await expect(page.get_by_role("status")).to_have_text("The email is tried again.")
        await expect(row_of(page, "bob").get_by_role("button")).to_have_count(0)
        await row_of(page, "eve").get_by_role("button", name="Dismiss").click()
        await expect(page.get_by_text("never sent")).to_be_visible()
        await page.get_by_role("button", name="Dismiss").click()
        await expect(page.get_by_role("status")).to_have_text("The email is dismissed.")
        await expect(row_of(page, "eve")).to_have_count(0)


async def test_a_form_without_its_token_changes_nothing(browser: Browser, app: App) -> None:
    await app.insert(failed("bob"))
    async with visiting(browser, app) as page:
        await log_in(page)
        for action in ("retry", "dismiss"):
            path = f"{QUEUE}/bob/{action}"
            answer = await page.request.post(path, form={"form_token": "guess"})
            assert answer.status == 403
    [row] = app.rows()
    assert row["status"] == "failed"


async def test_pages_allow_only_their_own_files(app: App) -> None:
    for path in ("/", "/admin/login", "/static/app.js", "/booked/unknown"):
        policy = httpx2.get(f"{app.url}{path}").headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
    assert httpx2.get(f"{app.url}/static/..%2Fpages.py").status_code == 404


@pytest.mark.parametrize(
    ("scheme", "width", "script"),
    [("light", 320, True), ("dark", 320, False), ("light", 1200, False), ("dark", 1200, True)],
)
async def test_nothing_is_wider_than_the_screen(
    browser: Browser, app: App, scheme: str, width: int, script: bool
) -> None:
    await app.insert(pending("ann"), failed("bob", last_error="550 " + "x" * 300))
    options = {"viewport": {"width": width, "height": 640}, "color_scheme": scheme}
    async with visiting(browser, app, java_script_enabled=script, **options) as page:
        await book(page, title="w" * 150)
        await expect(page.get_by_role("heading", name="The meeting is booked")).to_be_visible()
        await log_in(page)
        for path in ("/", "/admin", f"{QUEUE}/bob/dismiss", QUEUE):
            await page.goto(path)
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
        table = page.locator(".table")
        assert await table.evaluate("each => each.scrollWidth <= each.clientWidth")


async def test_after_too_many_wrong_passwords_the_page_says_how_long_to_wait(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with Site(tmp_path, clock).running() as site:
        found = re.search('name="form_token" value="(.+?)"', (await site.client.get(LOGIN)).text)
        assert found
        form = {"form_token": found[1], "password": "guess"}
        answers = [await site.client.post(LOGIN, data=form) for _ in range(FAILURES + 1)]
    assert [answer.status_code for answer in answers] == [401] * FAILURES + [429]
    assert "Try again in" in answers[-1].text


async def test_without_a_password_the_admin_pages_say_why_they_are_off(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with Site(tmp_path, clock, settings=BookingsSettings()).running() as site:
        for path in ("/admin", LOGIN, QUEUE):
            answer = await site.client.get(path)
            assert answer.status_code == 503
            assert "BOOKINGS_ADMIN_PASSWORD is not set" in answer.text


async def test_visitors_read_the_times_of_their_own_zone_first(browser: Browser, app: App) -> None:
    async with visiting(browser, app, timezone_id="Pacific/Auckland") as page:
        await page.goto("/")
        await expect(page.get_by_text("Times are in your time zone")).to_be_visible()
        slots = await page.locator(".slot").all_inner_texts()
        day = await page.locator(".days [aria-current] span").first.inner_text()

    assert slots[0].split() == ["22:00", "09:00"]
    # After midnight in Auckland.
    weekday, own, utc = slots[-1].split()
    assert (own, utc) == ("05:30", "16:30")
    assert weekday != day


@pytest.mark.parametrize("path", ["/admin", QUEUE])
async def test_on_a_narrow_screen_every_link_is_seen_whole(
    browser: Browser, app: App, path: str
) -> None:
    async with visiting(browser, app, viewport={"width": 360, "height": 740}) as page:
        await log_in(page)
        await page.goto(path)
        nav = page.get_by_role("navigation", name="Admin")

        assert await nav.evaluate("nav => nav.scrollWidth <= nav.clientWidth")
