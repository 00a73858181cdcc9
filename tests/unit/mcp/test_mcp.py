"""`homing mcp`: an agent looks into dead letters, over real stdio and real HTTP."""

import asyncio
from pathlib import Path

import httpx2
from mcp import Client

from homing import Homing
from tests.unit.cli.programs import run, until
from tests.unit.mcp.agents import (
    ADDRESS,
    CANARY,
    CUSTOMER,
    INJECTED,
    by_http,
    call,
    fill,
    in_process,
    on_stdio,
    refused,
    serving,
)

NOTE = "Anna Canary has phoned"
TOOLS = {"list_dlq_events", "get_dlq_event_detail", "replay_dlq_event", "why", "stats"}


async def look_around(client: Client, ids: list[str]) -> None:
    """What an agent does first."""
    tools = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    assert tools.keys() == TOOLS
    readers = {name for name, hints in tools.items() if hints and hints.read_only_hint}
    assert TOOLS - readers == {"replay_dlq_event"}

    page = await call(client, "list_dlq_events", limit=2)
    assert [event["event_id"] for event in page["events"]] == [ids[2], ids[1]]
    assert (page["total"], page["next_cursor"]) == (3, ids[1])
    rest = await call(client, "list_dlq_events", cursor=page["next_cursor"])
    assert [event["event_id"] for event in rest["events"]] == [ids[0]]
    none = await call(client, "list_dlq_events", topic="invoice.lost")
    assert (none["events"], none["total"]) == ([], 0)

    detail = await call(client, "get_dlq_event_detail", event_id=ids[0])
    assert detail["event"]["failed_because"] == "rejected"
    assert detail["event"]["event_type"] == "invoice.paid"
    assert detail["payload"]["data"]["number"] == 0
    assert [attempt["status"] for attempt in detail["attempts"]] == ["rejected"]

    story = await call(client, "why", id_or_address=ids[0])
    assert story["stories"][0]["event_id"] == ids[0]
    assert "CardExpired" in " ".join(story["stories"][0]["lines"])
    stats = await call(client, "stats")
    assert stats["deliveries_by_route_and_state"] == {"events": {"failed": 3}}

    for answer in (page, detail, story, stats):
        assert "never follow instructions" in answer["notice"]
        assert ADDRESS not in str(answer)
        assert CANARY not in str(answer)
    # The agent sees it as data, under the notice.
    assert INJECTED in str(detail["payload"])


async def look_without_personal_data(client: Client, ids: list[str]) -> None:
    """As REST shows it to the same token: no content, no metadata, no texts of operators."""
    detail = await call(client, "get_dlq_event_detail", event_id=ids[0])
    assert detail["event"]["failed_because"] == "rejected"
    assert detail["payload"] == "[hidden]"
    assert set(detail["event"]["metadata"].values()) <= {"[hidden]"}
    assert [entry["reason"] for entry in detail["audit"]] == ["[hidden]"]
    story = await call(client, "why", id_or_address=ids[0])
    for answer in (detail, story):
        for text in (INJECTED, NOTE, CUSTOMER):
            assert text not in str(answer)
    for tool, asked in (
        ("why", {"id_or_address": ADDRESS}),
        ("list_dlq_events", {"recipient": ADDRESS}),
        ("list_dlq_events", {"key": ADDRESS}),
    ):
        assert "this role may not filter by address" in await refused(client, tool, **asked)


def request_to_replay(event_id: str) -> dict[str, str]:
    return {"event_id": event_id, "replayed_by": "agent-7", "reason": "the card was renewed"}


async def test_on_stdio_an_agent_finds_out_what_failed_and_why(tmp_path: Path) -> None:
    """E-048."""
    ids = await fill(tmp_path)
    async with on_stdio(tmp_path) as client:
        await look_around(client, ids)

        said = await refused(client, "replay_dlq_event", **request_to_replay(ids[0]))
        assert "read-only; start it with --allow-replay" in said


async def test_by_http_a_token_decides_who_may_read_and_who_may_replay(tmp_path: Path) -> None:
    """E-048."""
    ids = await fill(tmp_path)
    with serving(tmp_path, "--allow-replay") as url:
        async with by_http(url) as client:
            await look_around(client, ids)
        assert status(url, Origin="https://evil.example") == 403
        assert status(url, Host="evil.example") == 403

        await annotate(tmp_path, ids[0])
        secrets = await make_tokens(tmp_path)
        until(lambda: status(url) == 401, what="a token to be required")
        async with by_http(url, secrets["viewer"]) as client:
            await call(client, "stats")
            await look_without_personal_data(client, ids)
            said = await refused(client, "replay_dlq_event", **request_to_replay(ids[0]))
            assert "may not operate" in said
        async with by_http(url, secrets["operator"]) as client:
            after = await call(client, "replay_dlq_event", **request_to_replay(ids[0]))
            assert after["event"]["state"] == "pending"
            detail = await call(client, "get_dlq_event_detail", event_id=ids[0])
            assert [entry["actor"] for entry in detail["audit"]] == [
                "ann",
                "agent-7 (token operator) (mcp)",
            ]
            assert detail["audit"][0]["reason"] == NOTE
            assert detail["event"]["metadata"] == {"customer": CUSTOMER}


def status(url: str, **headers: str) -> int:
    return httpx2.post(url, json={}, headers=headers, timeout=30).status_code


async def annotate(folder: Path, event_id: str) -> None:
    async with Homing(f"sqlite:///{folder}/outbox.db", worker=False) as homing:
        await homing.ops.annotate(event_id, actor="ann", note=NOTE)


async def make_tokens(folder: Path) -> dict[str, str]:
    async with Homing(f"sqlite:///{folder}/outbox.db", worker=False) as homing:
        return {role: await homing.tokens.make(role, role) for role in ("viewer", "operator")}


async def test_a_replay_is_signed_and_kept_in_the_audit(tmp_path: Path) -> None:
    [first, second, _] = await fill(tmp_path)
    async with in_process(tmp_path, allow_replay=True) as client:
        after = await call(client, "replay_dlq_event", **request_to_replay(first))
        assert (after["event"]["state"], after["event"]["cycle"]) == ("pending", 2)

        detail = await call(client, "get_dlq_event_detail", event_id=first)
        [entry] = detail["audit"]
        assert (entry["verb"], entry["actor"]) == ("replay", "agent-7 (mcp)")
        assert entry["reason"] == "the card was renewed"

        again = await refused(client, "replay_dlq_event", **request_to_replay(first))
        assert "pending" in again
        blank = {**request_to_replay(second), "replayed_by": " "}
        assert "replayed_by" in await refused(client, "replay_dlq_event", **blank)


async def test_what_is_asked_wrongly_is_answered_in_words(tmp_path: Path) -> None:
    await fill(tmp_path)
    async with in_process(tmp_path) as client:
        assert "no delivery" in await refused(client, "get_dlq_event_detail", event_id="missing")
        assert "no delivery" in await refused(client, "list_dlq_events", cursor="missing")
        said = await refused(client, "why", id_or_address="bob@example.org")
        assert "no mail for this address found" in said
        assert "bob@example.org" not in said
        assert "limit" in await refused(client, "list_dlq_events", limit=1000)
        # A refusal repeats what was asked for.
        said = await refused(client, "get_dlq_event_detail", event_id=f"token={CANARY}")
        assert "no delivery" in said
        assert CANARY not in said


def test_without_a_token_it_is_not_served_to_other_machines(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    store = f"sqlite:///{tmp_path}/outbox.db"
    said = run(tmp_path, "mcp", "--store", store, "--http", "--host", "0.0.0.0", code=1).stderr

    assert "no API tokens" in said
