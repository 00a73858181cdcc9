"""Live parts, two operators at once, back and reload, and reading without a script."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.browser.chromium import Visitor, visitor
from tests.browser.deliveries import dead, made, until
from tests.unit.web.served import Served


def test_rows_and_numbers_change_by_themselves(person: Visitor, served: Served) -> None:
    delivery_id = dead(served, "live-row", source="live")
    page = person.go("/deliveries?source=live")
    row = page.locator(f"tr[data-id='{delivery_id}']")
    expect(row).to_contain_text("failed")
    dismiss(served, delivery_id)
    expect(row).to_contain_text("dismissed")
    other = made(served, "live-new", "delivered", source="live", subject="New one")
    expect(page.locator(f"tr[data-id='{other}']")).to_contain_text("New one")


def test_rows_do_not_move_under_the_pointer(person: Visitor, served: Served) -> None:
    first = made(served, "still-1", "delivered", source="still", subject="Below the pointer")
    page = person.go("/deliveries?source=still")
    page.hover(f"tr[data-id='{first}']")
    other = made(served, "still-2", "delivered", source="still", subject="Newer")
    expect(page.locator("#news")).to_be_visible()
    assert page.locator(f"tr[data-id='{other}']").count() == 0
    page.click("#news a")
    expect(page.locator(f"tr[data-id='{other}']")).to_be_visible()


def test_the_second_of_two_operators_is_told(browser: Browser, served: Served) -> None:
    delivery_id = dead(served, "two-operators")
    with visitor(browser, served) as ann, visitor(browser, served) as bob:
        for person in (ann, bob):
            page = person.go(f"/deliveries/{delivery_id}")
            page.locator("details.action > summary", has_text="Dismiss").click()
            page.fill("details.action[open] [name=reason]", "mine")
        ann.page.click("details.action[open] button")
        expect(ann.page.locator("[role=status]")).to_contain_text("dismissed")
        # Bob is filling in a form, which is left alone; the server refuses what comes too late.
        bob.page.click("details.action[open] button")
        expect(bob.page.locator("main")).to_contain_text("Nothing was done")
        bob.troubles.clear()  # a refusal is an error in the browser's log, too
    items = served.call("GET", f"/api/v1/deliveries/{delivery_id}/audit").json()["items"]
    assert len(items) == 1


def test_back_and_reload_do_nothing_twice(person: Visitor, served: Served) -> None:
    delivery_id = dead(served, "back-button")
    page = person.go("/deliveries?state=failed")
    page.goto(f"{served.url}/deliveries/{delivery_id}")
    page.locator("details.action > summary", has_text="Dismiss").click()
    page.fill("details.action[open] [name=reason]", "once")
    page.click("details.action[open] button")
    expect(page.locator("[role=status]")).to_be_visible()
    page.reload()
    page.go_back()
    page.go_back()
    assert "state=failed" in page.url
    until(served, delivery_id, "dismissed")
    items = served.call("GET", f"/api/v1/deliveries/{delivery_id}/audit").json()["items"]
    assert len(items) == 1


def test_everything_can_be_read_and_done_without_a_script(browser: Browser, served: Served) -> None:
    dead(served, "no-script", source="no-script", text="Plain words")
    with visitor(browser, served, java_script_enabled=False) as person:
        page = person.go("/")
        assert "dead letter" in person.text()
        page.goto(f"{served.url}/deliveries?source=no-script")
        assert "no such mailbox" in person.text()
        page.click("td.what a")
        assert "Plain words" in person.text()
        assert "UTC" in person.text()
        page.click("summary:has-text('Dismiss')")
        page.fill("details[open] [name=reason]", "without a script")
        page.click("details[open] button")
        assert "It was dismissed." in person.text()


def test_lists_are_walked_both_ways(person: Visitor, served: Served) -> None:
    items = [
        {"idempotency_key": f"walk-{n}", "to": ["ok@stub.test"], "text": "x", "source": "walk"}
        for n in range(120)
    ]
    assert served.call("POST", "/api/v1/deliveries/batch", {"items": items}).status == 202
    page = person.go("/deliveries?source=walk")
    first = page.locator("tbody tr").first.get_attribute("data-id")
    page.click("[rel=next]")
    page.click("[rel=next]")
    expect(page.locator("tbody tr")).to_have_count(20)
    page.click("[rel=prev]")
    page.click("[rel=prev]")
    assert page.locator("tbody tr").first.get_attribute("data-id") == first
    assert "source=walk" in page.url


def test_keys_go_through_the_rows(person: Visitor, served: Served) -> None:
    for number in range(2):
        dead(served, f"keys-{number}", source="keys")
    page = person.go("/deliveries?source=keys")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("#chosen")).to_have_text("1 selected")
    page.keyboard.press("k")
    page.locator(":focus").press("Enter")
    expect(page.locator("h1")).to_have_text("keys-1")


def test_times_are_local_with_utc_on_hover(browser: Browser, served: Served) -> None:
    delivery_id = made(served, "zone", "delivered", subject="Zone")
    with visitor(browser, served, timezone_id="Asia/Tokyo", locale="en-GB") as person:
        page = person.go(f"/deliveries/{delivery_id}")
        shown = page.locator(".timeline time").first
        expect(shown).to_have_attribute("title", r := shown.get_attribute("data-utc") or "")
        assert r.endswith("UTC")
        hour = int(r.split(" ")[1][:2])
        assert f"{(hour + 9) % 24:02d}:" in shown.inner_text()


def test_a_slow_connection_keeps_what_is_shown_and_sends_a_form_once(
    person: Visitor, served: Served
) -> None:
    delivery_id = dead(served, "slow-line", source="slow")
    page = person.go("/deliveries?source=slow")
    slow = person.context.new_cdp_session(page)
    slow.send("Network.enable")
    conditions = {"offline": False, "latency": 700, "downloadThroughput": 8e3}
    slow.send("Network.emulateNetworkConditions", {**conditions, "uploadThroughput": 8e3})
    made(served, "slow-line-2", "delivered", source="slow", subject="Over a slow line")
    row = page.locator(f"tr[data-id='{delivery_id}']")
    expect(row).to_be_visible()
    expect(page.locator("tbody")).to_contain_text("Over a slow line")
    page.goto(f"{served.url}/deliveries/{delivery_id}")
    page.locator("details.action > summary", has_text="Dismiss").click()
    page.fill("details.action[open] [name=reason]", "pressed twice")
    page.locator("details.action[open] button").dblclick(no_wait_after=True)
    expect(page.locator("[role=status]")).to_contain_text("It was dismissed")
    items = served.call("GET", f"/api/v1/deliveries/{delivery_id}/audit").json()["items"]
    assert len(items) == 1


def dismiss(served: Served, delivery_id: str) -> None:
    body = {"actor": "bob", "reason": "by another operator"}
    path = f"/api/v1/deliveries/{delivery_id}/dismiss"
    assert served.call("POST", path, body).status == 200
