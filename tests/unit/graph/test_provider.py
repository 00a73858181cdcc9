"""Sends through the fake of Graph: answers, access tokens, drafts and lookups."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from msgspec.structs import replace

from homing.domain.failure import Failure
from homing.ports import Absent, Accepted, Found, Unknown
from homing.providers.graph.provider import GraphProvider
from homing_systems.mock_graph import Behaviour
from tests.unit.graph.fakes import FIRST_TOKEN, Fake, fake_graph
from tests.unit.graph.sending import TOKEN, envelope, send

Opened: TypeAlias = tuple[GraphProvider, Fake]
DRAFTS = "https://graph.microsoft.com/Mail.Send https://graph.microsoft.com/Mail.ReadWrite"


@asynccontextmanager
async def graph(folder: Path, **behaviour: Any) -> AsyncIterator[Opened]:
    with fake_graph(folder, Behaviour(**behaviour)) as fake:
        provider = fake.provider()
        try:
            yield provider, fake
        finally:
            await provider.close()


async def test_202_is_accepted_even_with_retry_after(tmp_path: Path) -> None:
    """O-021, O-023."""
    async with graph(tmp_path, script="202:120") as (provider, fake):
        answer = await send(provider)

        assert isinstance(answer, Accepted)
        assert answer.receipt.notification_id.startswith("mock-")
        [mail] = fake.state.ledger()
        assert (mail["recipient"], mail["subject"]) == ("ann@example.org", "Booked")
        assert mail["body"].strip() == "See you Monday"


@pytest.mark.parametrize(
    ("word", "error_class", "maybe_sent", "wait_s"),
    [
        ("200", "unexpected_answer", True, None),
        ("400", "bad_request", False, None),
        ("403", "forbidden", False, None),
        ("429:120", "rate_limited", False, 120.0),
        ("429@120", "rate_limited", False, pytest.approx(120.0, abs=30)),
        ("500", "server_error", True, None),
        ("502", "bad_gateway", True, None),
        ("503:7", "unavailable", False, 7.0),
        ("504", "gateway_timeout", True, None),
    ],
)
async def test_an_answer_that_is_not_202_is_a_failure(
    tmp_path: Path, word: str, error_class: str, maybe_sent: bool, wait_s: float | None
) -> None:
    """O-022, O-028, O-030."""
    async with graph(tmp_path, script=word) as (provider, fake):
        answer = await send(provider)

        assert isinstance(answer, Failure)
        assert (answer.error_class, answer.code) == (error_class, word[:3])
        assert (answer.maybe_sent, answer.retry_after_s) == (maybe_sent, wait_s)
        assert fake.state.ledger() == []


@pytest.mark.parametrize(("word", "accepted"), [("cut", 0), ("202-cut", 1)])
async def test_a_cut_after_the_request_leaves_doubt(
    tmp_path: Path, word: str, accepted: int
) -> None:
    async with graph(tmp_path, script=word) as (provider, fake):
        answer = await send(provider)

        assert isinstance(answer, Failure)
        assert (answer.error_class, answer.code, answer.maybe_sent) == ("answer_lost", None, True)
        assert len(fake.state.ledger()) == accepted


async def test_a_service_that_is_not_there_was_not_sent_to(tmp_path: Path) -> None:
    """O-035."""
    async with graph(tmp_path) as (_, fake):
        provider = fake.provider(GRAPH_API_URL="http://127.0.0.1:9")
        answer = await send(provider)
        await provider.close()

    assert isinstance(answer, Failure)
    assert (answer.error_class, answer.code, answer.maybe_sent) == ("unreachable", None, False)


async def test_a_refused_access_token_is_renewed_and_the_send_repeated_once(
    tmp_path: Path,
) -> None:
    """O-025, O-094, O-095."""
    async with graph(tmp_path, script="401,202") as (provider, fake):
        assert isinstance(await send(provider), Accepted)

        assert fake.sends() == [401, 202]
        assert len(fake.calls_of("/token")) == 2
        assert fake.state.known.refresh_tokens[-1] in fake.env_file.read_text()


async def test_a_second_401_is_a_fault_of_the_route(tmp_path: Path) -> None:
    async with graph(tmp_path, script="401,401,202") as (provider, fake):
        answer = await send(provider)

        assert isinstance(answer, Failure)
        assert (answer.error_class, answer.disposition) == ("auth_failed", "route_fault")
        assert fake.sends() == [401, 401]


async def test_a_401_whose_refresh_is_refused_ends_as_revoked(tmp_path: Path) -> None:
    """O-026, O-107."""
    behaviour = {"script": "401", "token_script": "200,401"}
    async with graph(tmp_path, **behaviour) as (provider, fake):
        answer = await send(provider)

        assert isinstance(answer, Failure)
        assert (answer.error_class, answer.code, answer.maybe_sent) == (
            "token_revoked",
            "401",
            False,
        )
        assert fake.sends() == [401]


async def test_with_mail_read_write_a_draft_is_made_and_sent(tmp_path: Path) -> None:
    async with graph(tmp_path, scope=DRAFTS) as (provider, fake):
        ready = await provider.prepare(envelope())
        assert not isinstance(ready, Failure)
        assert fake.state.ledger() == []
        [draft] = fake.state.known.drafts.values()

        answer = await ready.commit()

        assert isinstance(answer, Accepted)
        assert answer.receipt.notification_id == draft.id
        assert [mail["via"] for mail in fake.state.ledger()] == ["draft"]


async def test_an_abandoned_draft_is_removed(tmp_path: Path) -> None:
    async with graph(tmp_path, scope=DRAFTS) as (provider, fake):
        ready = await provider.prepare(envelope())
        assert not isinstance(ready, Failure)
        await ready.abandon()
        await provider.close()

        assert fake.state.known.drafts == {}
        assert fake.state.ledger() == []


async def test_a_draft_that_was_certainly_not_sent_is_removed(tmp_path: Path) -> None:
    async with graph(tmp_path, scope=DRAFTS, script="503") as (provider, fake):
        answer = await send(provider)
        await provider.close()

        assert isinstance(answer, Failure)
        assert answer.code == "503"
        assert fake.state.known.drafts == {}


async def test_a_draft_that_someone_has_deleted_is_made_again(tmp_path: Path) -> None:
    async with graph(tmp_path, scope=DRAFTS) as (provider, fake):
        ready = await provider.prepare(envelope())
        assert not isinstance(ready, Failure)
        fake.state.known.drafts.clear()

        answer = await ready.commit()

        assert isinstance(answer, Failure)
        assert (answer.error_class, answer.disposition) == ("draft_missing", "retry")


async def test_a_lost_answer_is_found_by_lookup(tmp_path: Path) -> None:
    async with graph(tmp_path, scope=DRAFTS, script="202-cut") as (provider, fake):
        answer = await send(provider)
        assert isinstance(answer, Failure)
        assert answer.maybe_sent

        found = await provider.lookup(TOKEN)

        assert isinstance(found, Found)
        [draft] = fake.state.known.drafts.values()
        assert (found.receipt.notification_id, found.receipt.evidence) == (draft.id, "lookup")


async def test_a_draft_is_absent_only_after_the_settle_time(tmp_path: Path) -> None:
    async with graph(tmp_path, scope=DRAFTS, script="cut") as (provider, fake):
        await send(provider)
        assert isinstance(await provider.lookup(TOKEN), Unknown)

        [draft] = fake.state.known.drafts.values()
        for age_s, answer in ((270, Unknown), (330, Absent)):
            created = datetime.now(UTC) - timedelta(seconds=age_s)
            fake.state.known.drafts[draft.id] = replace(draft, created=created.isoformat())
            assert isinstance(await provider.lookup(TOKEN), answer)

        assert fake.state.known.drafts == {}
        assert isinstance(await provider.lookup(TOKEN), Unknown)


async def test_without_the_permission_nothing_can_be_looked_up(tmp_path: Path) -> None:
    async with graph(tmp_path) as (provider, fake):
        before = provider.may_look_up
        assert isinstance(await provider.lookup(TOKEN), Unknown)

        assert (before, provider.may_look_up) == (True, False)
        assert fake.calls_of("/messages") == []


async def test_at_most_four_requests_are_under_way(tmp_path: Path) -> None:
    async with graph(tmp_path) as (provider, fake), AsyncExitStack() as cleanup:
        ready = [await provider.prepare(envelope()) for _ in range(4)]
        fifth = asyncio.create_task(provider.prepare(envelope()))
        cleanup.callback(fifth.cancel)
        await asyncio.sleep(0)  # it needs no more with a slot: the access token is known
        assert not fifth.done()

        for each in ready:
            assert not isinstance(each, Failure)
            assert isinstance(await each.commit(), Accepted)
        last = await fifth
        assert not isinstance(last, Failure)
        assert isinstance(await last.commit(), Accepted)
        assert len(fake.state.ledger()) == 5


@pytest.mark.parametrize("end", ["close", "cancel"])
async def test_slots_are_free_again_whatever_happens(tmp_path: Path, end: str) -> None:
    async with graph(tmp_path, latency_s=0.2) as (provider, fake):
        sends = [asyncio.create_task(send(provider)) for _ in range(4)]
        await _until(lambda: len(fake.calls_of("/token")) == 1)
        for each in sends:
            each.cancel()
        await asyncio.gather(*sends, return_exceptions=True)
        if end == "close":
            await provider.close()
            await provider.open()

        assert isinstance(await send(provider), Accepted)


async def test_the_findings_name_what_a_person_has_to_mend(tmp_path: Path) -> None:
    async with graph(tmp_path, token_script="revoked") as (provider, fake):
        assert {each.verdict for each in await provider.findings()} == {"good"}
        assert fake.calls_of("/token") == []

        await send(provider)
        fake.env_file.chmod(0o644)

        findings = {each.verdict: each.detail for each in await provider.findings()}
        assert "token_revoked" in findings["bad"]
        assert "chmod 600" in findings["warning"]
        assert FIRST_TOKEN not in str(findings)


async def _until(ready: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not ready():  # noqa: ASYNC110 - what is waited for is in the fake's thread
            await asyncio.sleep(0.01)
