"""Repairing many by REST: chosen by a filter, tried first, paced, stopped."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from homing.engine.ops.verbs import BULK
from tests.unit.web.conftest import Api

WHO = {"actor": "ann", "reason": "the mailbox exists now"}
URLS = [f"/api/v1/{each.path}" for each in BULK.values()]
REPLAYS, DISMISSALS, CANCELLATIONS, RESTORATIONS = URLS


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pause(*_: object) -> None:
        pass

    monkeypatch.setattr("homing.engine.ops.bulk.pause", pause)


async def ask(api: Api, url: str, **more: Any) -> httpx2.Response:
    return await api.client.post(url, json={**WHO, **more})


async def done(api: Api, url: str, **more: Any) -> dict[str, Any]:
    """Started, and read again when it has ended."""
    started = await ask(api, url, **more)
    assert started.status_code == 202, started.text
    await api.homing.bulk.finished()
    found: dict[str, Any] = (await api.client.get(f"{url}/{started.json()['bulk_id']}")).json()
    return found


async def keys(api: Api, **filters: str) -> set[str]:
    return {item["idempotency_key"] for item in await api.listed(**filters)}


async def uncertain(api: Api, key: str) -> None:
    await api.post(key, to=["maybe@stub.test"])
    for _ in range(10):
        await api.work()
        api.clock.advance(seconds=100_000)


class TestWhatIsChosen:
    @pytest.mark.parametrize("url", URLS)
    @pytest.mark.parametrize("nothing", [{}, {"filter": {}}, {"filter": {"source": None}}])
    async def test_without_a_condition_nothing_is_done(
        self, api: Api, url: str, nothing: dict[str, Any]
    ) -> None:
        await api.dead("a")
        await api.post("b")
        for dry_run in (False, True):
            answer = await ask(api, url, **nothing, dry_run=dry_run)
            assert (answer.status_code, answer.json()["field"]) == (422, "filter")
            assert '"all": true' in answer.json()["detail"]
        assert await keys(api, status="failed") == {"a"}
        assert await keys(api, status="pending") == {"b"}

    async def test_everything_is_asked_for_by_name(self, api: Api) -> None:
        await api.dead("a")
        await api.dead("b")
        assert (await done(api, DISMISSALS, all=True))["done"] == 2

    async def test_everything_beside_a_filter_is_refused(self, api: Api) -> None:
        answer = await ask(api, REPLAYS, all=True, filter={"source": "shop"})
        assert (answer.status_code, answer.json()["field"]) == (422, "all")

    async def test_all_means_all(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        """Only a limit that was asked for ends a bulk action before its last delivery."""
        limits: list[int | None] = []
        start = api.homing.bulk.start

        async def noted(*given: Any, **named: Any) -> Any:
            limits.append(named["limit"])
            return await start(*given, **named)

        monkeypatch.setattr(api.homing.bulk, "start", noted)
        await api.post("a")
        await done(api, CANCELLATIONS, all=True)
        assert limits == [None]

    @pytest.mark.parametrize("url", [REPLAYS, DISMISSALS])
    async def test_uncertain_ones_are_chosen_only_by_their_reason(self, api: Api, url: str) -> None:
        """They may have arrived: a replay may send them a second time."""
        await uncertain(api, "maybe")
        await api.dead("dead")
        assert (await done(api, url, filter={"route": "mail"}))["matched"] == 1
        dry = (await ask(api, url, all=True, dry_run=True)).json()
        assert (dry["matched"], dry["uncertain_left_out"]) == (0, 1)
        assert await keys(api, status="failed", reason="uncertain") == {"maybe"}
        by_name = await done(api, url, filter={"reason": "uncertain"})
        assert (by_name["matched"], by_name["done"]) == (1, 1)

    async def test_the_filter_chooses(self, api: Api) -> None:
        await api.dead("a", source="shop")
        await api.dead("b", source="crm")
        await api.post("c", source="crm", to=["bounce@stub.test", "ok@stub.test"])
        await api.work()
        chosen: list[tuple[dict[str, Any], int]] = [
            ({"source": "crm"}, 2),
            ({"key": "a"}, 1),
            ({"recipient": "Bob <ok@stub.test>"}, 1),
            ({"status": "failed"}, 3),
            ({"status": "failed", "reason": "rejected"}, 3),
            ({"status": "delivered"}, 0),
            ({"error_class": "recipient_refused", "source": "shop"}, 1),
            ({"created_before": "1970-01-01T00:00:01Z"}, 0),
        ]
        for conditions, number in chosen:
            dry = await ask(api, REPLAYS, filter=conditions, dry_run=True)
            assert dry.json()["matched"] == number, conditions
        assert (await done(api, REPLAYS, filter={"source": "crm"}))["done"] == 2
        assert await keys(api, status="failed") == {"a"}

    async def test_what_is_open_is_cancelled(self, api: Api) -> None:
        await api.post("a", source="shop")
        await api.post("b", source="crm")
        assert (await done(api, CANCELLATIONS, filter={"source": "shop"}))["done"] == 1
        assert await keys(api, status="pending") == {"b"}

    async def test_what_was_cancelled_is_restored(self, api: Api) -> None:
        await api.post("a", source="shop")
        await done(api, CANCELLATIONS, filter={"source": "shop"})
        assert (await done(api, RESTORATIONS, filter={"source": "shop"}))["done"] == 1
        assert await keys(api, status="pending") == {"a"}


class TestDryRun:
    @pytest.mark.parametrize(("url", "becomes"), [(REPLAYS, "pending"), (DISMISSALS, "dismissed")])
    async def test_it_says_what_would_become_of_each_and_changes_nothing(
        self, api: Api, url: str, becomes: str
    ) -> None:
        ids = [await api.dead(f"dead-{number}") for number in range(3)]
        answer = await ask(api, url, filter={"route": "mail"}, dry_run=True)
        dry = answer.json()
        assert (answer.status_code, dry["state"], dry["bulk_id"]) == (200, "dry_run", None)
        assert (dry["matched"], dry["done"]) == (3, 0)
        assert [each["delivery_id"] for each in dry["preview"]] == ids[::-1]
        assert {(each["status"], each["becomes"]) for each in dry["preview"]} == {
            ("failed", becomes)
        }
        assert len(await api.listed(status="failed")) == 3

    async def test_what_would_be_cancelled_is_called_so(self, api: Api) -> None:
        await api.post("a")
        dry = (await ask(api, CANCELLATIONS, all=True, dry_run=True)).json()
        assert [each["becomes"] for each in dry["preview"]] == ["cancelled"]

    async def test_its_preview_is_bounded(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("homing.web.api.bulk.MAX_PREVIEW", 2)
        for number in range(3):
            await api.dead(f"dead-{number}")
        dry = (await ask(api, REPLAYS, all=True, dry_run=True)).json()
        assert (dry["matched"], len(dry["preview"])) == (3, 2)


class TestRunning:
    async def test_replays_stop_themselves_when_the_error_returns(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(3):
            await api.dead(f"dead-{number}")

        async def pause(*_: object) -> None:
            """The pause between two replays: the worker tries the one just replayed."""
            await api.work()

        monkeypatch.setattr("homing.engine.ops.bulk.pause", pause)
        replay = await done(api, REPLAYS, filter={"error_class": "recipient_refused"})
        assert (replay["state"], replay["done"]) == ("stopped", 1)
        assert replay["stopped_because"] == "recipient_refused"

    async def test_it_can_be_stopped(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        for number in range(3):
            await api.dead(f"dead-{number}")

        async def pause(_: float, stop_asked: asyncio.Event) -> None:
            await stop_asked.wait()

        monkeypatch.setattr("homing.engine.ops.bulk.pause", pause)
        bulk_id = (await ask(api, REPLAYS, all=True)).json()["bulk_id"]
        stopped = await ask(api, f"{REPLAYS}/{bulk_id}/stop")
        assert stopped.status_code == 200
        await api.homing.bulk.finished()
        found = (await api.client.get(f"{REPLAYS}/{bulk_id}")).json()
        assert found["state"] == "stopped"
        assert found["done"] < 3

    async def test_its_id_belongs_to_its_verb(self, api: Api) -> None:
        await api.dead()
        bulk_id = (await done(api, REPLAYS, all=True))["bulk_id"]
        for path in (f"{DISMISSALS}/{bulk_id}", f"{REPLAYS}/{bulk_id[:4]}", f"{REPLAYS}/nope"):
            assert (await api.client.get(path)).status_code == 404
            assert (await ask(api, f"{path}/stop")).status_code == 404

    async def test_their_number_is_bounded(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        await api.dead()
        go_on = asyncio.Event()

        async def pause(*_: object) -> None:
            await go_on.wait()

        monkeypatch.setattr("homing.engine.ops.bulk.pause", pause)
        monkeypatch.setattr("homing.engine.ops.bulk.MOST_AT_ONCE", 1)
        assert (await ask(api, REPLAYS, all=True)).status_code == 202
        refused = await ask(api, REPLAYS, all=True)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        go_on.set()
        await api.homing.bulk.finished()
        assert (await ask(api, REPLAYS, all=True)).status_code == 202
        await api.homing.bulk.finished()

    async def test_replays_are_paced_and_the_other_verbs_are_not(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pauses_s: list[float] = []

        async def pause(pause_s: float, *_: object) -> None:
            pauses_s.append(pause_s)

        monkeypatch.setattr("homing.engine.ops.bulk.pause", pause)
        await api.dead()
        await done(api, REPLAYS, all=True)
        await api.work()
        await done(api, DISMISSALS, all=True)
        assert pauses_s == [0.1]

    @pytest.mark.parametrize("url", URLS)
    @pytest.mark.parametrize(
        ("wrong", "field"),
        [
            ({"filter": {"reason": "boredom"}}, "filter.reason"),
            ({"filter": {"status": "bored"}}, "filter.status"),
            ({"filter": {"colour": "red"}}, "filter.colour"),
            (
                {
                    "filter": {
                        "created_after": "2026-11-16T08:00:00Z",
                        "created_before": "2026-11-15T08:00:00Z",
                    }
                },
                "filter.created_after",
            ),
            ({"filter": {"source": "x" * 201}}, "filter.source"),
            ({"per_second": 0}, "per_second"),
            ({"per_second": 1001}, "per_second"),
            ({"limit": 0}, "limit"),
            ({"limit": 100_001}, "limit"),
            ({"dry_run": "yes"}, "dry_run"),
            ({"all": 1}, "all"),
            ({"actor": ""}, "actor"),
        ],
    )
    async def test_bad_words_are_refused(
        self, api: Api, url: str, wrong: dict[str, Any], field: str
    ) -> None:
        answer = await ask(api, url, **{"filter": {"route": "mail"}} | wrong)
        assert (answer.status_code, answer.json()["field"]) == (422, field)
