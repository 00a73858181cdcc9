"""The admin endpoints: sessions, the outbox, the dashboard, and requests of other sites."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from homing.testing.clocks import ManualClock
from homing.web.access.login_limits import FAILURES, WINDOW_S
from homing_systems.bookings import outbox
from homing_systems.bookings.app.sessions import COOKIE, SESSION_S, Sessions
from homing_systems.bookings.app.settings import BookingsSettings
from tests.conformance.bookings.site import ANN, PASSWORD, Site
from tests.conformance.bookings.test_outbox import ENTRY, FAILED, insert

ITEM = {
    "id",
    "toAddress",
    "subject",
    "status",
    "attempts",
    "maxAttempts",
    "nextRetryAt",
    "lastError",
    "createdAt",
}
ROUTES = (
    ("GET", "/api/admin/outbox"),
    ("POST", "/api/admin/outbox/row-2/retry"),
    ("DELETE", "/api/admin/outbox/row-2"),
    ("GET", "/api/admin/dashboard"),
    ("POST", "/api/admin/bookings/row-2/cancel"),
)


@pytest.fixture
async def site(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Site]:
    async with Site(tmp_path, clock).running() as site:
        await insert(site, ENTRY, FAILED)
        yield site


async def test_the_list_shows_these_fields_newest_first(site: Site) -> None:
    """B-076, B-077, B-078"""
    await site.log_in()

    items = (await site.client.get("/api/admin/outbox")).json()

    assert [item["id"] for item in items] == ["row-2", "row-1"]
    assert [set(item) for item in items] == [ITEM, ITEM]
    assert items[0] == {
        "id": "row-2",
        "toAddress": "ann@example.org",
        "subject": "Booked",
        "status": "failed",
        "attempts": 5,
        "maxAttempts": 9,
        "nextRetryAt": FAILED.next_retry_at,
        "lastError": "451 later",
        "createdAt": FAILED.created_at,
    }


async def test_retry_answers_with_the_entry(site: Site) -> None:
    """B-009, B-079"""
    await site.log_in()

    answer = await site.client.post("/api/admin/outbox/row-2/retry")

    assert answer.status_code == 200
    item = answer.json()
    assert set(item) == ITEM
    assert (item["status"], item["attempts"], item["maxAttempts"]) == ("pending", 0, 5)
    assert (item["nextRetryAt"], item["lastError"]) == ("2026-02-23T10:00:00.000Z", None)
    for row_id, code in (("row-1", 409), ("row-2", 409), ("no-such-row", 404)):
        again = await site.client.post(f"/api/admin/outbox/{row_id}/retry")
        assert again.status_code == code


async def test_dismiss_removes_the_entry(site: Site) -> None:
    """B-080, B-097"""
    await site.log_in()

    answer = await site.client.delete("/api/admin/outbox/row-2")

    assert (answer.status_code, answer.content) == (204, b"")
    assert [row["id"] for row in site.rows()] == ["row-1"]
    for row_id, code in (("row-1", 409), ("row-2", 404), ("no-such-row", 404)):
        again = await site.client.delete(f"/api/admin/outbox/{row_id}")
        assert again.status_code == code


async def test_the_dashboard_has_the_counts_of_this_moment(site: Site) -> None:
    """B-082, B-083, B-109"""
    await site.log_in()

    async def counts() -> tuple[object, object]:
        stats = (await site.client.get("/api/admin/dashboard")).json()
        return stats["pendingEmailCount"], stats["failedEmailCount"]

    assert await counts() == (1, 1)
    site.smtp.answer("451")
    await site.book()
    await site.tried(1)
    assert await counts() == (2, 1)
    await outbox.dismiss_outbox_entry(site.service, "row-2")
    assert await counts() == (2, 0)


async def test_there_is_no_summary(site: Site) -> None:
    """B-010"""
    await site.log_in()

    assert (await site.client.get("/api/admin/outbox/summary")).status_code == 404


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_without_a_session_nothing_is_shown_or_changed(
    site: Site, method: str, path: str
) -> None:
    """B-081"""
    before = site.rows()

    for cookie in ("", f"{COOKIE}=made-up"):
        answer = await site.client.request(method, path, headers={"cookie": cookie})
        assert answer.status_code == 401

    assert site.rows() == before


@pytest.mark.parametrize(("method", "path"), [*ROUTES, ("POST", "/api/admin/login")])
async def test_without_a_password_there_is_no_admin(
    tmp_path: Path, clock: ManualClock, method: str, path: str
) -> None:
    """B-081"""
    async with Site(tmp_path, clock, settings=BookingsSettings()).running() as site:
        answer = await site.client.request(
            method, path, json={"password": ""} if path.endswith("login") else None
        )

    assert answer.status_code == 503
    assert "BOOKINGS_ADMIN_PASSWORD" in answer.json()["detail"]


async def test_a_login_sets_a_strict_cookie(site: Site) -> None:
    """B-081"""

    async def cookie_at(base: str) -> str:
        answer = await site.client.post(f"{base}/api/admin/login", json={"password": PASSWORD})
        assert answer.status_code == 200
        return answer.headers["set-cookie"].lower()

    plain, public = await cookie_at("http://127.0.0.1:8003"), await cookie_at("http://cal.example")
    secure = await cookie_at("https://127.0.0.1:8003")
    for cookie in (plain, public, secure):
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
    assert ["secure" in cookie for cookie in (plain, public, secure)] == [False, True, True]


async def test_a_logout_ends_the_session(site: Site) -> None:
    """B-081"""
    await site.log_in()
    token = site.client.cookies[COOKIE]

    assert (await site.client.post("/api/admin/logout")).status_code == 204

    answer = await site.client.get("/api/admin/outbox", headers={"cookie": f"{COOKIE}={token}"})
    assert answer.status_code == 401


async def test_guessing_is_slowed_down(site: Site) -> None:
    """B-081"""

    async def guess(password: str) -> httpx2.Response:
        return await site.client.post("/api/admin/login", json={"password": password})

    codes = [(await guess("wrong")).status_code for _ in range(FAILURES)]
    refused = await guess(PASSWORD)

    assert codes == [401] * FAILURES
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= WINDOW_S + 1


def test_a_session_ends_and_a_wait_is_over_with_time() -> None:
    """B-081"""
    now_s = 0.0
    sessions = Sessions(PASSWORD, lambda: now_s)
    for number in range(FAILURES):
        now_s = float(number)
        assert sessions.log_in("wrong", "10.0.0.1") is None
    assert sessions.retry_after_s("10.0.0.1") == WINDOW_S - FAILURES + 2
    assert sessions.retry_after_s("10.0.0.2") is None
    now_s = WINDOW_S + 1
    assert sessions.retry_after_s("10.0.0.1") is None
    token = sessions.log_in(PASSWORD, "10.0.0.1")
    assert token is not None
    now_s += SESSION_S - 1
    assert sessions.is_open(token)
    now_s += 1
    assert not sessions.is_open(token)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8004"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_a_page_of_another_site_changes_nothing(site: Site, headers: dict[str, str]) -> None:
    """B-081"""
    await site.log_in()
    before = site.rows()

    for method, path, body in (
        ("POST", "/api/admin/outbox/row-2/retry", None),
        ("DELETE", "/api/admin/outbox/row-2", None),
        ("POST", "/api/admin/login", {"password": PASSWORD}),
        ("POST", "/api/book", ANN),
    ):
        answer = await site.client.request(method, path, json=body, headers=headers)
        assert answer.status_code == 403

    assert site.rows() == before
    own = {"origin": "http://127.0.0.1:8003", "sec-fetch-site": "same-origin"}
    answer = await site.client.post("/api/admin/outbox/row-2/retry", headers=own)
    assert answer.status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
async def test_only_json_is_taken(site: Site, kind: str) -> None:
    """B-081"""
    await site.log_in()

    for path in ("/api/book", "/api/admin/login", "/api/admin/outbox/row-2/retry"):
        answer = await site.client.post(path, content=b"{}", headers={"content-type": kind})
        assert answer.status_code == 415


async def test_a_large_body_is_refused(site: Site) -> None:
    """B-001"""
    answer = await site.client.post("/api/book", json={**ANN, "title": "x" * 20_000})

    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"name": "\\ud800", "email": "a@example.org", "title": "x", "start": "x"}', "name"),
        ('{"name": "Ann", "email": "nobody", "title": "x", "start": "x"}', "email"),
        ('{"\\ud800": 1}', "body"),
    ],
)
async def test_a_refusal_names_the_field_and_repeats_nothing(
    site: Site, body: str, field: str
) -> None:
    """B-067"""
    headers = {"Content-Type": "application/json"}
    answer = await site.client.post("/api/book", content=body, headers=headers)

    assert answer.status_code == 422
    problems = answer.json()["detail"]
    assert field in [problem["loc"][-1] for problem in problems]
    assert all(problem.keys() == {"loc", "msg"} for problem in problems)


async def test_a_body_that_is_too_large_is_not_read(site: Site) -> None:
    read: list[int] = []

    async def body() -> AsyncIterator[bytes]:
        for number in range(3):
            read.append(number)
            yield b" " * 10_000

    headers = {"Content-Type": "application/json", "Content-Length": "30000"}
    async with site.client.stream("POST", "/api/book", content=body(), headers=headers) as answer:
        assert answer.status_code == 413
    assert read == []


async def test_answers_are_not_kept_by_caches(site: Site) -> None:
    await site.log_in()

    answer = await site.client.get("/api/admin/outbox")

    assert answer.headers["Cache-Control"] == "no-store"
