"""Search and export: the same deliveries for programs, spreadsheets and the console."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from homing.engine.ops import search
from tests.unit.web.conftest import Api

SEARCH = "/api/v1/search"
EXPORT = "/api/v1/export"


async def found(api: Api, text: str, **more: str) -> dict[str, Any]:
    answer = await api.client.get(SEARCH, params={"q": text, **more})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


class TestSearch:
    async def test_an_id_a_key_a_recipient_and_words_of_an_error(self, api: Api) -> None:
        sent = (await api.post("booking-42", to=["Ann <ann@EXAMPLE.org>"])).json()["delivery_id"]
        dead = await api.dead("other")
        for text, matched, delivery_id in (
            (sent, "id", sent),
            ("booking-42", "key", sent),
            (" ann@Example.ORG ", "recipient", sent),
            ("Ann <ann@example.org>", "recipient", sent),
            ("mailbox SUCH no", "error", dead),
            ("5.1.1", "error", dead),
            ("recipient_refused", "error", dead),
        ):
            answer = await found(api, text)
            ids = [item["delivery_id"] for item in answer["items"]]
            assert (answer["matched"], ids) == (matched, [delivery_id]), text
        assert await found(api, "no such thing") == {
            "matched": "nothing",
            "items": [],
            "more": False,
            "filter": None,
        }

    async def test_its_filter_lists_all_of_them(self, api: Api) -> None:
        for number in range(3):
            await api.post(f"k{number}")
        answer = await found(api, "ann@example.org", limit="2")
        assert (len(answer["items"]), answer["more"]) == (2, True)
        assert len(await api.listed(**answer["filter"])) == 3

    async def test_a_key_of_a_program_not_heard_of_lately_is_found(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(search, "SOURCES_OF", 1)
        old = (await api.post("old-1", source="archive")).json()["delivery_id"]
        await api.post("new-1")
        answer = await found(api, "old-1")
        assert [item["delivery_id"] for item in answer["items"]] == [old]

    async def test_mail_that_was_amended_away_is_found_by_its_old_address(self, api: Api) -> None:
        dead = await api.dead()
        email = {"to": ["ok@stub.test"], "subject": "Booked", "text": "See you"}
        body = {"actor": "ann", "reason": "moved", "email": email}
        assert (await api.client.post(f"/api/v1/deliveries/{dead}/amend", json=body)).is_success
        answer = await found(api, "bounce@stub.test")
        assert [item["delivery_id"] for item in answer["items"]] == [dead]

    @pytest.mark.parametrize("params", [{}, {"q": " "}, {"q": "x" * 501}, {"q": "x", "y": "z"}])
    async def test_what_is_no_search_is_refused(self, api: Api, params: dict[str, str]) -> None:
        assert (await api.client.get(SEARCH, params=params)).status_code == 400


class TestExport:
    async def test_all_that_match_are_in_the_csv(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("homing.web.api.exporting.MAX_LIMIT", 2)
        for number in range(5):
            await api.post(f"k{number}", source="shop")
        await api.post("other")
        answer = await api.client.get(EXPORT, params={"source": "shop"})
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.headers["content-disposition"] == 'attachment; filename="deliveries.csv"'
        assert answer.headers["x-content-type-options"] == "nosniff"
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert [row["idempotency_key"] for row in rows] == ["k4", "k3", "k2", "k1", "k0"]
        assert rows[0]["recipients"] == "ann@example.org"
        as_json = await api.client.get(EXPORT, params={"source": "shop", "format": "json"})
        assert as_json.json()["items"] == await api.listed(source="shop")

    async def test_nothing_is_a_head_or_an_empty_list(self, api: Api) -> None:
        assert (await api.client.get(EXPORT)).text.count("\n") == 1
        empty = await api.client.get(EXPORT, params={"format": "json"})
        assert empty.json() == {"items": []}

    @pytest.mark.parametrize("key", ["=cmd()", "+1", "-1", "@sum", '=a","b', "é\u200b"])
    async def test_no_cell_is_a_formula_or_hides_anything(self, api: Api, key: str) -> None:
        await api.homing.submit_requests([])
        await api.post("k", source=key if key.isprintable() else "x")
        text = (await api.client.get(EXPORT)).text
        [row] = csv.DictReader(io.StringIO(text))
        assert row["source"][0] not in "=+-@"
        assert "\u200b" not in text

    async def test_another_format_is_refused(self, api: Api) -> None:
        refused = await api.client.get(EXPORT, params={"format": "xlsx"})
        assert (refused.status_code, refused.json()["field"]) == (400, "format")
