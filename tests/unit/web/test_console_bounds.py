"""Pages over a store with very much: they end, say where, and lead on."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import pytest

from homing.domain.message import Email
from homing.engine.ops import bounded
from homing.runtime.app import Homing
from homing.stores.sql.sqlite.dialect import DIALECT
from homing.testing.clocks import ManualClock
from tests.unit.web.conftest import OPEN, Api, running

HELLO = Email(to="ann@example.org", subject="Hello", text="x")


@pytest.fixture
async def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    """One delivery of `rare`, and 30 newer ones of `shop`; a page looks at 10."""
    monkeypatch.setattr(bounded, "LOOK_AT", 10)
    monkeypatch.setattr(DIALECT, "few_to_one_address", 3)
    clock = ManualClock()
    url = f"sqlite:///{tmp_path}/homing.db"
    homing = Homing(url, provider="stub:", worker=False, clock=clock)
    async with running(OPEN, homing) as api:
        await homing.submit(Email(to="bob@example.org", subject="Rare", text="x"), source="rare")
        clock.advance(1)
        await homing.submit_many([(f"k-{number}", HELLO) for number in range(30)], source="shop")
        api.clock = clock
        yield api


def links(text: str, relation: str) -> list[str]:
    return [unescape(each) for each in re.findall(rf'rel="{relation}" href="([^"]*)"', text)]


@pytest.mark.parametrize(
    ("path", "subject"),
    [("/deliveries?source=rare", "Rare"), ("/address?a=bob@example.org", "Rare")],
)
async def test_a_page_that_matches_little_leads_on_to_it(api: Api, path: str, subject: str) -> None:
    text = (await api.client.get(path)).text
    for _ in range(3):
        if subject in text:
            break
        assert "Nothing matches among the deliveries that were read" in text
        [further] = links(text, "next")
        text = (await api.client.get(f"/{further.removeprefix('./')}")).text
    assert subject in text
    assert not links(text, "next")


async def test_what_many_are_for_is_listed_without_a_detour(api: Api) -> None:
    text = (await api.client.get("/address?a=ann@example.org")).text
    assert text.count("data-id=") == 10
    assert "No others match among the deliveries that were read" in text


async def test_rest_lists_to_the_end(api: Api) -> None:
    [found] = await api.listed(source="rare")
    assert found["source"] == "rare"


async def test_a_preview_says_when_there_are_more_than_it_counts(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "COUNT_UP_TO", 5)
    monkeypatch.setattr("homing.web.console.bulk.COUNT_UP_TO", 5)
    text = (await api.client.get("/bulk?verb=cancel&matching=1&source=shop")).text
    assert "Cancel more than 5 deliveries?" in text
    who = {"actor": "ann", "reason": "r", "filter": {"source": "shop"}, "dry_run": True}
    tried = (await api.client.post("/api/v1/cancellations", json=who)).json()
    assert tried["matched"] == 30


async def test_a_key_is_found_by_the_name_of_its_program(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which every process notes, so that no delivery has to be looked at."""
    monkeypatch.setattr("homing.engine.ops.search.SOURCES_OF", 1)
    homing = api.homing
    ticket = await homing.submit(HELLO, key="k-old", source="seldom")
    await homing.engine.process.counters.write()
    api.clock.advance(1)
    await homing.submit_many([(f"n-{number}", HELLO) for number in range(20)], source="shop")
    found = (await api.client.get("/api/v1/search?q=k-old")).json()
    assert found["matched"] == "key"
    assert found["items"][0]["delivery_id"] == ticket.delivery_id
