"""Every act of an operator, end to end in a real browser, on SQLite and PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Visitor
from tests.browser.deliveries import dead, made, until
from tests.unit.web.served import Served

pytestmark = pytest.mark.parametrize("store", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def resumed(served: Served) -> Iterator[None]:
    """However a test ends, the others find the route running."""
    yield
    body = {"actor": "test", "reason": "the test is over"}
    served.call("POST", "/api/v1/routes/mail/resume", body)


def act(page: Page, label: str, reason: str = "the mailbox exists now", **fields: str) -> None:
    """Open the act's form, fill it in, and press its button."""
    page.locator("details.action > summary", has_text=label).click()
    form = page.locator("details.action[open] form")
    for name, value in fields.items():
        form.locator(f"[name={name}]").fill(value)
    form.locator("[name=reason]").fill(reason)
    form.locator("button").click()


def audit(served: Served, delivery_id: str) -> list[tuple[str, str]]:
    items = served.call("GET", f"/api/v1/deliveries/{delivery_id}/audit").json()["items"]
    return [(item["verb"], item["reason"]) for item in items]


def test_a_dead_letter_says_why_is_amended_and_replayed(person: Visitor, served: Served) -> None:
    delivery_id = dead(served, "amend-me", text="See you")
    page = person.go(f"/deliveries/{delivery_id}")
    expect(page.locator(".why-box")).to_contain_text("refused permanently")
    expect(page.locator(".timeline")).to_contain_text("no such mailbox")
    act(page, "Amend", to="ok@stub.test")
    expect(page.locator("[role=status]")).to_contain_text("corrected mail is stored")
    act(page, "Replay", "the address was wrong")
    expect(page.locator("[role=status]")).to_contain_text("tried again")
    until(served, delivery_id, "delivered")
    expect(page.locator("h1 + .facts")).to_contain_text("delivered")  # live, without a reload
    assert audit(served, delivery_id) == [
        ("amend", "the mailbox exists now"),
        ("replay", "the address was wrong"),
    ]


def test_a_dismissal_is_undone(person: Visitor, served: Served) -> None:
    delivery_id = dead(served, "dismiss-me")
    page = person.go(f"/deliveries/{delivery_id}")
    act(page, "Dismiss")
    until(served, delivery_id, "dismissed")
    act(page, "Restore")
    until(served, delivery_id, "failed")
    expect(page.locator(".timeline")).to_contain_text("restored it")


def test_a_copy_is_sent_and_a_note_is_kept(person: Visitor, served: Served) -> None:
    delivery_id = made(served, "copy-me", "delivered", subject="Twice")
    page = person.go(f"/deliveries/{delivery_id}")
    act(page, "Add a note", "asked for by phone")
    expect(page.locator(".timeline")).to_contain_text("asked for by phone")
    act(page, "Send a copy")
    expect(page.locator("[role=status]")).to_contain_text("This is the copy")
    copy_id = page.url.partition("?")[0].rpartition("/")[2]
    assert copy_id != delivery_id
    until(served, copy_id, "delivered")


def test_one_in_doubt_is_confirmed_with_evidence(person: Visitor, served: Served) -> None:
    delivery_id = made(served, "maybe", "failed", to=["maybe@stub.test"], subject="In doubt")
    page = person.go(f"/deliveries/{delivery_id}")
    expect(page.locator(".facts").first).to_contain_text("may have arrived")
    expect(page.locator("details.action > summary").first).to_have_text("Send again")
    act(page, "Confirm arrival", evidence="she has answered it")
    shown = until(served, delivery_id, "delivered")
    assert shown["receipt"]["detail"] == "she has answered it"


def test_one_that_waits_is_cancelled_and_restored(person: Visitor, served: Served) -> None:
    answer = served.post("later", subject="Later", send_at="2096-10-02T07:06:40Z")
    delivery_id = str(answer.json()["delivery_id"])
    page = person.go(f"/deliveries/{delivery_id}")
    act(page, "Cancel")
    until(served, delivery_id, "dismissed")
    act(page, "Restore")
    until(served, delivery_id, "pending")


def test_an_act_without_a_reason_is_not_sent(person: Visitor, served: Served) -> None:
    delivery_id = dead(served, "no-reason")
    page = person.go(f"/deliveries/{delivery_id}")
    page.locator("details.action > summary", has_text="Dismiss").click()
    page.locator("details.action[open] button").click()
    assert page.locator("details.action[open] [name=reason]:invalid").count() == 1
    until(served, delivery_id, "failed")


def test_chosen_rows_are_dismissed_and_that_is_undone(person: Visitor, served: Served) -> None:
    ids = [dead(served, f"chosen-{number}", source="chosen") for number in range(3)]
    page = person.go("/deliveries?source=chosen&state=failed")
    for delivery_id in ids[:2]:
        page.check(f"tr[data-id='{delivery_id}'] input")
    expect(page.locator("#chosen")).to_have_text("2 selected")
    page.click("button[value=dismiss]")
    expect(page.locator("h1")).to_have_text("Dismiss 2 deliveries?")
    page.fill("[name=reason]", "not wanted")
    page.click("button.main")
    expect(page.locator("h1")).to_have_text("2 deliveries dismissed")
    assert until(served, ids[2], "failed")
    page.click("text=Undo")
    expect(page.locator("h1")).to_have_text("2 deliveries restored")
    until(served, ids[0], "failed")
    page.click("text=Back to the list")
    assert "source=chosen" in page.url
    expect(page.locator("tbody tr")).to_have_count(3)


def test_all_that_match_are_replayed_with_progress(person: Visitor, served: Served) -> None:
    for number in range(3):
        made(served, f"all-{number}", "failed", to=["down@stub.test"], subject="All", source="all")
    page = person.go("/failures")
    expect(page.locator(".group", has_text="all attempts failed")).to_contain_text("3")
    page.goto(f"{served.url}/deliveries?source=all&state=failed")
    page.check("[name=matching]")
    page.click("button[value=replay]")
    expect(page.locator("h1")).to_have_text("Replay 3 deliveries?")
    expect(page.locator("main")).to_contain_text("3 pending")
    page.fill("[name=reason]", "the server is back")
    page.fill("[name=per_second]", "1000")
    page.click("button.main")
    expect(page.locator("h1")).to_have_text(re.compile("3 deliveries replayed|stopped"))
    page.click("text=Back to the list")
    assert "source=all" in page.url


def test_a_bulk_dismissal_is_undone(person: Visitor, served: Served) -> None:
    ids = [dead(served, f"undo-{number}", source="undo") for number in range(3)]
    page = person.go("/bulk?verb=dismiss&matching=1&source=undo&state=failed")
    page.fill("[name=reason]", "by mistake")
    page.click("button.main")
    expect(page.locator("h1")).to_have_text("3 deliveries dismissed")
    page.click("text=Undo")
    expect(page.locator("h1")).to_have_text("Restore 3 deliveries?")
    expect(page.locator("main")).to_contain_text("3 failed")
    page.fill("[name=reason]", "it was a mistake")
    page.click("button.main")
    expect(page.locator("h1")).to_have_text("3 deliveries restored")
    for delivery_id in ids:
        until(served, delivery_id, "failed")


def test_a_group_of_failures_leads_to_the_pause_of_its_route(
    person: Visitor, served: Served
) -> None:
    dead(served, "pause-group")
    page = person.go("/failures")
    page.locator(".group", has_text="Recipient refused").locator("text=Pause the route").click()
    expect(page.locator("details.action[open] [name=reason]")).to_be_visible()


def test_a_long_bulk_action_is_stopped(person: Visitor, served: Served) -> None:
    for number in range(3):
        dead(served, f"stop-{number}", source="stop")
    page = person.go("/bulk?verb=replay&matching=1&source=stop")
    page.fill("[name=reason]", "slowly")
    page.evaluate("document.querySelector('[name=per_second]').min = 0")
    page.evaluate("document.querySelector('[name=per_second]').step = 'any'")
    page.fill("[name=per_second]", "0.01")
    page.click("button.main")
    page.click("text=Stop")
    expect(page.locator("h1")).to_have_text("Replay: stopped")


@pytest.mark.usefixtures("resumed")
def test_a_route_is_paused_checked_tested_and_resumed(person: Visitor, served: Served) -> None:
    page = person.go("/routes/mail")
    act(page, "Pause", "maintenance")
    expect(page.locator(".why-box")).to_contain_text("maintenance")
    page.goto(f"{served.url}/")
    expect(page.locator(".verdict")).to_contain_text("Route mail is paused")
    page.click(".verdict a:has-text('Route')")
    page.click("text=Check the provider")
    expect(page.locator("main")).to_contain_text("the stub sends nothing")
    act(page, "Resume", "done")
    expect(page.locator("[role=status]")).to_contain_text("runs again")
    page.locator("details.action > summary", has_text="test message").click()
    page.fill("[name=to]", "ok@stub.test")
    page.locator("details.action[open] button").click()
    expect(page.locator("h1")).to_have_text("Test message from Homing")


def test_samples_of_each_outcome_are_sent(person: Visitor, served: Served) -> None:
    page = person.go("/outbox")
    page.click("text=Send a sample of each outcome")
    expect(page.locator("[role=status]")).to_contain_text("Samples were submitted")
    expect(page.locator(".letter", has_text="Sample for ok@stub.test").first).to_be_visible()
    page.goto(f"{served.url}/deliveries?source=console&recipient=bounce%40stub.test")
    expect(page.locator("tbody tr").first).to_contain_text("Sample for bounce@stub.test")


def test_the_doctor_examines(person: Visitor) -> None:
    page = person.go("/doctor")
    page.click("text=Examine now")
    expect(page.locator("tbody")).to_contain_text("the stub sends nothing")


@pytest.mark.parametrize("asked", ["id", "key", "address"])
def test_search_leads_to_what_was_asked_for(person: Visitor, served: Served, asked: str) -> None:
    delivery_id = made(
        served, f"found-{asked}", "delivered", to=["ok@stub.test"], subject=f"Found by {asked}"
    )
    page = person.go("/failures")
    page.keyboard.press("/")
    page.keyboard.type({"id": delivery_id, "key": f"found-{asked}"}.get(asked, "ok@stub.test"))
    page.keyboard.press("Enter")
    if asked == "address":
        expect(page.locator("h1")).to_have_text("ok@stub.test")
        expect(page.locator("table")).to_contain_text("Found by address")
        expect(page.locator(".stories")).to_contain_text("the provider accepted it")
    else:
        expect(page.locator("h1")).to_have_text(f"Found by {asked}")
