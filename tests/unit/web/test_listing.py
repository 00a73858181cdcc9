"""Reading by REST: lists page without gap, filters combine, what is asked wrongly is refused."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest

from homing.engine.ops.delivery_filter import FILTERS
from homing.ports import Cursor, Facet, GroupBy, Query
from homing.testing import samples
from homing.web.http.reading import decode_cursor, encode_cursor
from tests.unit.web.conftest import Api

LIST = "/api/v1/deliveries"
# The words: at least these.
FIELDS = {
    "delivery_id",
    "route",
    "source",
    "idempotency_key",
    "status",
    "failed_because",
    "maybe_duplicate",
    "stage",
    "attempts",
    "max_attempts",
    "next_attempt_at_ms",
    "last_error",
    "error_class",
    "recipients",
    "created_at_ms",
    "updated_at_ms",
}


async def test_an_empty_list_has_its_shape(api: Api) -> None:
    assert (await api.client.get(LIST)).json() == {
        "items": [],
        "next_cursor": None,
        "previous_cursor": None,
    }


async def test_a_delivery_has_every_promised_field(api: Api) -> None:
    delivery_id = await api.dead()
    [listed] = await api.listed()
    shown = (await api.client.get(f"{LIST}/{delivery_id}")).json()
    assert shown == listed
    assert shown.keys() >= FIELDS
    assert (shown["status"], shown["failed_because"]) == ("failed", "rejected")
    assert (shown["attempts"], shown["max_attempts"]) == (1, 7)
    assert shown["error_class"] == "recipient_refused"
    assert "no such mailbox" in shown["last_error"]
    assert shown["next_attempt_at_ms"] is None


async def test_one_that_waits_says_until_when(api: Api) -> None:
    await api.post("k", to=["down@stub.test"])
    await api.work()
    [waiting] = await api.listed()
    assert (waiting["status"], waiting["attempts"]) == ("pending", 1)
    assert waiting["next_attempt_at_ms"] == api.clock.now_ms() + 60_000


async def test_the_list_is_newest_first_and_pages_without_gap_or_repeat(api: Api) -> None:
    """M-103, M-105, M-106 hold for our own API too."""
    ids = []
    for number in range(7):
        ids.append((await api.post(f"k{number}")).json()["delivery_id"])
        api.clock.advance(seconds=1 if number % 2 else 0)
    seen: list[str] = []
    cursor = ""
    while True:
        query = {"limit": "3", **({"cursor": cursor} if cursor else {})}
        page = (await api.client.get(LIST, params=query)).json()
        assert len(page["items"]) <= 3
        seen += [item["delivery_id"] for item in page["items"]]
        cursor = page["next_cursor"] or ""
        if not cursor:
            break
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        assert raw.endswith(seen[-1])
        await api.post(f"between-{cursor}")
    assert [delivery_id for delivery_id in seen if delivery_id in ids] == sorted(ids, reverse=True)


async def test_a_page_holds_fifty_unless_told(api: Api) -> None:
    for number in range(51):
        await api.post(f"k{number}")
    page = (await api.client.get(LIST)).json()
    assert len(page["items"]) == 50
    assert page["next_cursor"]


def b64(text: str | bytes) -> str:
    raw = text.encode() if isinstance(text, str) else text
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "%%%",
        "YWJj",
        "",
        "a",
        b64("1"),
        b64(":x"),
        b64("1:"),
        b64("-1:x"),
        b64("1e3:x"),
        b64("99999999999999999:x"),
        b64(f"{2**53 + 1}:x"),
        b64("\u0661:x"),
        b64(b"1:\xff"),
        b64("1:x") + "==",
        b64("1:x") + "A" * 1000,
        "MTp4\x00",
        "MTp4eR",  # reads like "MTp4eQ", which is ours
    ],
)
async def test_what_is_no_cursor_of_ours_is_refused(api: Api, cursor: str) -> None:
    """T17: decoded strictly, then range-checked."""
    answer = await api.client.get(LIST, params={"cursor": cursor})
    assert (answer.status_code, answer.json()["field"]) == (400, "cursor")


@pytest.mark.parametrize("delivery_id", ["x", "a:b", "ü", "%", "' or 1=1 --", "{}", "x" * 500])
def test_a_cursor_comes_back_as_it_was(delivery_id: str) -> None:
    text = encode_cursor(Cursor(1_700_000_000_000, delivery_id))
    assert text is not None
    assert decode_cursor(text) == Cursor(1_700_000_000_000, delivery_id)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("limit=", "limit"),
        ("limit=1.5", "limit"),
        ("limit=1.0.0", "limit"),
        ("limit=+1", "limit"),
        ("limit=%D9%A1", "limit"),
        ("status=nonsense", "status"),
        ("status=", "status"),
        ("route=none", "route"),
        ("route=", "route"),
        ("created_after=yesterday", "created_after"),
        ("created_before=2026-11-16T08:00:00", "created_before"),
        ("created_after=2026-11-16T08:00Z&created_before=2026-11-15T08:00Z", "created_after"),
        ("colour=red", "colour"),
        ("limit=1&limit=2", "limit"),
        ("source=%ff", "query"),
        ("source=a%00b", "source"),
        ("&".join(f"a{n}=1" for n in range(60)), "query"),
        ("%00=1", "\x00"),
    ],
)
async def test_a_bad_filter_is_refused_by_name(api: Api, query: str, field: str) -> None:
    answer = await api.client.get(f"{LIST}?{query}")
    assert (answer.status_code, answer.json()["field"]) == (400, field)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


async def test_every_filter_filters(api: Api) -> None:
    await api.post("a", source="shop", to=["Ann <ann@example.org>"])
    api.clock.advance(seconds=10)
    await api.dead("b", source="shop")
    api.clock.advance(seconds=10)
    await api.post("c", source="crm", to=["bob@example.org"], cc=["ann@EXAMPLE.org"])
    born = {item["idempotency_key"]: _time(item["created_at_ms"]) for item in await api.listed()}
    wanted = {
        "source": ("shop", ["b", "a"]),
        "recipient": ("ann@Example.org", ["c", "a"]),
        "status": ("failed", ["b"]),
        "error_class": ("recipient_refused", ["b"]),
        "key": ("c", ["c"]),
        "route": ("mail", ["c", "b", "a"]),
        "topic": ("welcome", []),
        "reason": ("rejected", ["b"]),
        "state": ("delivered", ["a"]),
        "created_after": (born["b"], ["c", "b"]),
        # The end is not part of it, so that two spans side by side share nothing.
        "created_before": (born["b"], ["a"]),
    }
    assert wanted.keys() == FILTERS.keys()
    for name, (value, keys) in wanted.items():
        found = await api.listed(**{name: value})
        assert [item["idempotency_key"] for item in found] == keys, name


async def test_filters_combine(api: Api) -> None:
    await api.post("a", source="shop", to=["ann@example.org"])
    await api.post("b", source="shop", to=["bob@example.org"])
    await api.post("c", source="crm", to=["ann@example.org"])
    found = await api.listed(source="shop", recipient="ann@example.org", status="pending")
    assert [item["idempotency_key"] for item in found] == ["a"]


async def test_a_route_of_the_past_can_still_be_asked_for(api: Api) -> None:
    await api.homing.store.add([samples.new("old", route="gone")])
    assert [each["delivery_id"] for each in await api.listed(route="gone")] == ["old"]
    assert await api.listed(route="gone", status="failed") == []


async def test_unknown_ids_are_404(api: Api) -> None:
    for path in ("nope", "nope/attempts", "nope/why", "nope/audit"):
        answer = await api.client.get(f"{LIST}/{path}")
        assert answer.status_code == 404
        assert "nope" not in answer.text
    assert (await api.client.get("/api/v1/replays/nope")).status_code == 404


async def test_errors_are_grouped_by_class(api: Api) -> None:
    await api.dead("a")
    newest = await api.dead("b")
    now_ms = api.clock.now_ms()
    groups = (await api.client.get("/api/v1/failures")).json()["items"]
    assert groups == [
        {
            "error_class": "recipient_refused",
            "failed_because": "rejected",
            "route": "mail",
            "count": 2,
            "newest_delivery_id": newest,
            "newest_error": "5.1.1 no such mailbox",
            "first_seen_at_ms": now_ms,
            "last_seen_at_ms": now_ms,
            "trend": "rising",
            "last_hour": 2,
            "hour_before": 0,
            "came_back_at_ms": None,
            "came_back_delivery_id": None,
        }
    ]


async def test_stats_and_the_first_page_show_the_counts(api: Api) -> None:
    await api.dead()
    await api.post("k")
    stats = (await api.client.get("/api/v1/stats")).json()
    by_route = {route["route"]: route for route in stats["routes"]}
    assert by_route["mail"] == {
        "route": "mail",
        "states": {"failed": 1, "pending": 1},
        "paused": False,
    }
    page = await api.client.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "1 dead letter waits for a decision" in page.text
    style = await api.client.get("/static/console.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"


async def test_the_first_page_asks_only_for_numbers_that_a_store_keeps(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a million deliveries none is read: by route, queue and state stores keep the numbers."""
    await api.dead()
    asked: list[tuple[Query, tuple[str, ...]]] = []
    count = api.homing.store.count

    async def remember(query: Query, by: tuple[GroupBy, ...] = ()) -> object:
        asked.append((query, by))
        return await count(query, by)

    monkeypatch.setattr(api.homing.store, "count", remember)
    for path in ("/", "/api/v1/stats", "/metrics"):
        assert (await api.client.get(path)).status_code == 200
    assert len(asked) >= 3
    for query, by in asked:
        assert set(by) <= {"route", "queue", "state"}
        states = None if query.facets is None else tuple(Facet(state=f.state) for f in query.facets)
        assert query == Query(facets=states)


async def test_metrics_show_the_counts(api: Api) -> None:
    await api.dead()
    text = (await api.client.get("/metrics")).text
    assert 'homing_deliveries{route="mail",state="failed"} 1\n' in text
    assert 'homing_route_paused{route="mail"} 0\n' in text


async def test_counters_are_shown_by_span_and_route(api: Api) -> None:
    await api.post("a")
    await api.dead("b")
    await api.homing.engine.process.counters.flush()
    for span, points in (("hour", 60), ("day", 144), ("week", 168)):
        found = (await api.client.get("/api/v1/counters", params={"span": span})).json()
        assert len(found["points"]) == points
        last = found["points"][-1]
        assert (last["accepted"], last["delivered"], last["failed"]) == (2, 1, 1)
    await api.homing.store.add([samples.new("other", route="other")])
    for route, accepted in (("mail", 2), ("other", 0)):
        found = (await api.client.get("/api/v1/counters", params={"route": route})).json()
        assert sum(point["accepted"] for point in found["points"]) == accepted
    for field, value, status in (("span", "year", 400), ("route", "none", 404)):
        refused = await api.client.get("/api/v1/counters", params={field: value})
        assert (refused.status_code, refused.json()["field"]) == (status, field)


async def test_events_and_exports_of_a_route_that_is_not_known_are_refused(api: Api) -> None:
    for path in ("events", "export"):
        answer = await api.client.get(f"/api/v1/{path}", params={"route": "none"})
        assert (answer.status_code, answer.json()["field"]) == (400, "route")
        assert answer.json()["detail"].startswith("must be one of ")


async def test_pages_lead_both_ways(api: Api) -> None:
    for number in range(5):
        await api.post(f"k{number}")
    first = (await api.client.get(LIST, params={"limit": "2"})).json()
    second = (
        await api.client.get(LIST, params={"limit": "2", "cursor": first["next_cursor"]})
    ).json()
    back = await api.client.get(LIST, params={"limit": "2", "cursor": second["previous_cursor"]})
    assert back.json() == first
