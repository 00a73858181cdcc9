"""Operator REST: list, show, explain, repair."""

from __future__ import annotations

import base64

import pytest

from tests.unit.web.conftest import Api

WHO = {"actor": "ann", "reason": "the mailbox exists now"}


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
        page = (await api.client.get("/api/v1/deliveries", params=query)).json()
        seen += [item["delivery_id"] for item in page["items"]]
        cursor = page["next_cursor"] or ""
        if not cursor:
            break
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        assert raw.endswith(seen[-1])
        await api.post(f"between-{cursor}")
    assert [delivery_id for delivery_id in seen if delivery_id in ids] == sorted(ids, reverse=True)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"cursor": "%%%"}, "cursor"),
        ({"cursor": "YWJj"}, "cursor"),
        ({"status": "nonsense"}, "status"),
        ({"from_created_at_ms": "-1"}, "from_created_at_ms"),
        ({"from_created_at_ms": "5", "to_created_at_ms": "4"}, "from_created_at_ms"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_bad_filter_is_refused_by_name(api: Api, query: dict[str, str], field: str) -> None:
    answer = await api.client.get("/api/v1/deliveries", params=query)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


async def test_filters_combine(api: Api) -> None:
    await api.post("a", source="shop", to=["ann@example.org"])
    await api.post("b", source="shop", to=["bob@example.org"])
    await api.post("c", source="crm", to=["ann@example.org"])
    found = await api.client.get(
        "/api/v1/deliveries", params={"source": "shop", "recipient": "ann@example.org"}
    )
    assert [item["idempotency_key"] for item in found.json()["items"]] == ["a"]


async def test_a_dead_letter_is_listed_explained_and_replayed(api: Api) -> None:
    delivery_id = await api.dead()
    listed = (await api.client.get("/api/v1/deliveries?status=failed")).json()["items"]
    assert [item["failed_because"] for item in listed] == ["rejected"]
    why = (await api.client.get(f"/api/v1/deliveries/{delivery_id}/why")).json()["lines"]
    assert any("no such mailbox" in line for line in why)
    replayed = await api.client.post(f"/api/v1/deliveries/{delivery_id}/replay", json=WHO)
    assert (replayed.status_code, replayed.json()["status"]) == (200, "pending")
    assert replayed.json()["failure_history"][0]["replayed_by"] == "ann"
    attempts = (await api.client.get(f"/api/v1/deliveries/{delivery_id}/attempts")).json()["items"]
    assert [attempt["status"] for attempt in attempts] == ["rejected", "scheduled"]
    audit = (await api.client.get(f"/api/v1/deliveries/{delivery_id}/audit")).json()["items"]
    assert [(entry["verb"], entry["actor"]) for entry in audit] == [("replay", "ann")]


async def test_a_late_second_click_does_nothing(api: Api) -> None:
    """I21: two clicks on what an operator saw have one effect."""
    delivery_id = await api.dead()
    click = {**WHO, "cycle": 1}
    assert (
        await api.client.post(f"/api/v1/deliveries/{delivery_id}/replay", json=click)
    ).is_success
    await api.work()
    late = await api.client.post(f"/api/v1/deliveries/{delivery_id}/replay", json=click)
    assert late.status_code == 409


@pytest.mark.parametrize("verb", ["replay", "restart", "dismiss", "restore", "confirm"])
async def test_a_verb_that_the_state_forbids_is_409(api: Api, verb: str) -> None:
    delivery_id = (await api.post("k")).json()["delivery_id"]
    body = {**WHO, "evidence": "seen"} if verb == "confirm" else WHO
    answer = await api.client.post(f"/api/v1/deliveries/{delivery_id}/{verb}", json=body)
    assert answer.status_code == 409
    shown = (await api.client.get(f"/api/v1/deliveries/{delivery_id}")).json()
    assert shown["status"] == "pending"


async def test_verbs_need_an_actor_and_a_reason(api: Api) -> None:
    delivery_id = await api.dead()
    for body, field in [({"actor": "ann"}, "reason"), ({"actor": " ", "reason": "x"}, "actor")]:
        answer = await api.client.post(f"/api/v1/deliveries/{delivery_id}/dismiss", json=body)
        assert (answer.status_code, answer.json()["field"]) == (422, field)


async def test_unknown_ids_and_verbs_are_404(api: Api) -> None:
    for path in ("nope", "nope/attempts", "nope/why", "nope/audit"):
        assert (await api.client.get(f"/api/v1/deliveries/{path}")).status_code == 404
    delivery_id = await api.dead()
    unknown = await api.client.post(f"/api/v1/deliveries/{delivery_id}/explode", json=WHO)
    assert unknown.status_code == 404


async def test_a_resend_is_a_delivery_of_its_own(api: Api) -> None:
    delivery_id = await api.dead()
    before = (await api.client.get(f"/api/v1/deliveries/{delivery_id}")).json()
    clone = await api.client.post(f"/api/v1/deliveries/{delivery_id}/resend", json=WHO)
    assert clone.status_code == 201
    assert clone.json()["clone_of"] == delivery_id
    assert clone.json()["source"] == "operator_resend"
    after = (await api.client.get(f"/api/v1/deliveries/{delivery_id}")).json()
    assert after == before


async def test_errors_are_grouped_by_class(api: Api) -> None:
    await api.dead("a")
    await api.dead("b")
    groups = (await api.client.get("/api/v1/errors")).json()["items"]
    assert [(group["error_class"], group["count"]) for group in groups] == [
        ("recipient_refused", 2)
    ]


async def test_stats_and_the_status_page_show_the_counts(api: Api) -> None:
    await api.dead()
    stats = (await api.client.get("/api/v1/stats")).json()
    by_route = {route["route"]: route["states"] for route in stats["routes"]}
    assert by_route["mail"] == {"failed": 1}
    page = await api.client.get("/")
    assert page.status_code == 200
    assert "<td class=bad>1</td>" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


async def test_a_replay_by_filter_can_be_counted_first(api: Api) -> None:
    for number in range(3):
        await api.dead(f"dead-{number}")
    body = {**WHO, "filter": {"error_class": "recipient_refused"}, "dry_run": True}
    dry = (await api.client.post("/api/v1/replays", json=body)).json()
    assert (dry["matched"], dry["replay_id"], dry["state"]) == (3, None, "dry_run")


async def test_a_replay_by_filter_stops_itself_when_the_error_returns(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        await api.dead(f"dead-{number}")

    async def pause(seconds: float) -> None:
        """The pause between two replays: the worker tries the one just replayed."""
        await api.work()

    monkeypatch.setattr("homing.engine.replays.pause", pause)
    body = {**WHO, "filter": {"error_class": "recipient_refused"}}
    started = await api.client.post("/api/v1/replays", json=body)
    assert started.status_code == 202
    await api.homing.replays.finished()
    shown = (await api.client.get(f"/api/v1/replays/{started.json()['replay_id']}")).json()
    assert (shown["state"], shown["replayed"]) == ("stopped", 1)
    assert shown["stopped_because"] == "recipient_refused"
