"""The refresh token: read from the file alone, replaced there before its access token is used."""

import asyncio
import logging
from pathlib import Path

import httpx2
import pytest

from homing.domain.failure import Failure
from homing.domain.redaction import redact
from homing.ports import Accepted
from homing.providers.graph.provider import GraphProvider
from homing.providers.graph.tokens import Tokens
from homing_systems.mock_graph import Behaviour
from tests.unit.graph.fakes import ENV, FIRST_TOKEN, Fake, fake_graph, write_env
from tests.unit.graph.sending import envelope, send


class Alarm:
    def __init__(self, provider: GraphProvider) -> None:
        self.heard: list[tuple[str, str, str]] = []
        provider.sound_alerts(self.sound)

    async def sound(self, kind: str, key: str, text: str) -> bool:
        self.heard.append((kind, key, text))
        return True


def block_rotation(fake: Fake) -> Path:
    """A folder where the new file would be written: also root cannot write it."""
    blocker = fake.env_file.with_name(".env.new")
    blocker.mkdir()
    return blocker


async def test_every_refresh_stores_the_new_token_and_nothing_else(tmp_path: Path) -> None:
    """O-069."""
    with fake_graph(tmp_path) as fake:
        provider = fake.provider()
        assert isinstance(await send(provider), Accepted)
        await provider.close()

        [issued] = fake.state.known.refresh_tokens
        assert fake.env_file.read_text() == ENV.replace(FIRST_TOKEN, issued)


async def test_the_token_is_stored_before_the_access_token_is_used(tmp_path: Path) -> None:
    """O-069."""
    with fake_graph(tmp_path) as fake:
        provider = fake.provider()
        replaced = fake.env_file.with_name(".env.new")
        ready = await provider.prepare(envelope())

        # Prepared is before the first use of the access token: nothing but a refresh was asked.
        assert not isinstance(ready, Failure)
        assert fake.sends() == []
        assert fake.state.known.refresh_tokens[-1] in fake.env_file.read_text()
        assert not replaced.exists()
        await ready.abandon()
        await provider.close()


async def test_an_access_token_is_used_until_shortly_before_its_end(tmp_path: Path) -> None:
    with fake_graph(tmp_path) as fake:
        provider = fake.provider()
        for _ in range(3):
            await send(provider)
        await provider.close()

        assert len(fake.calls_of("/token")) == 1


async def test_sends_that_start_together_share_one_refresh(tmp_path: Path) -> None:
    with fake_graph(tmp_path, Behaviour(latency_s=0.05)) as fake:
        provider = fake.provider()
        answers = await asyncio.gather(*(send(provider) for _ in range(8)))
        await provider.close()

        assert all(isinstance(each, Accepted) for each in answers)
        assert len(fake.calls_of("/token")) == 1


async def test_two_programs_never_spend_the_same_token(tmp_path: Path) -> None:
    """O-072."""
    with fake_graph(tmp_path, Behaviour(latency_s=0.02, revoke_used=True)) as fake:
        providers = [fake.provider() for _ in range(4)]
        answers = await asyncio.gather(*(send(provider) for provider in providers))
        for provider in providers:
            await provider.close()

        assert all(isinstance(each, Accepted) for each in answers)
        assert fake.state.known.refresh_tokens[-1] in fake.env_file.read_text()
        assert [call["status"] for call in fake.calls_of("/token")] == [200] * 4


async def test_a_token_that_cannot_be_stored_sounds_the_alarm_and_the_mail_is_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """O-070."""
    with fake_graph(tmp_path) as fake:
        provider = fake.provider()
        alarm = Alarm(provider)
        block_rotation(fake)
        with caplog.at_level(logging.ERROR, "homing.graph"):
            assert isinstance(await send(provider), Accepted)

        [(kind, key, text)] = alarm.heard
        assert (kind, key) == ("token_lost", "shop@example.org")
        assert "GRAPH_REFRESH_TOKEN could not be stored" in text
        assert "graph_token_not_stored" in caplog.text
        assert fake.state.known.refresh_tokens[0] not in text + caplog.text
        assert "not in the file" in str(await provider.findings())
        assert fake.env_file.read_text() == ENV
        await provider.close()


async def test_a_token_that_was_not_stored_is_used_and_stored_at_the_next_refresh(
    tmp_path: Path,
) -> None:
    """O-070."""
    behaviour = Behaviour(script="202,401,202", revoke_used=True)
    with fake_graph(tmp_path, behaviour) as fake:
        provider = fake.provider()
        blocker = block_rotation(fake)
        assert isinstance(await send(provider), Accepted)
        blocker.rmdir()

        assert isinstance(await send(provider), Accepted)

        assert fake.state.known.used == [FIRST_TOKEN, fake.state.known.refresh_tokens[0]]
        assert fake.state.known.refresh_tokens[1] in fake.env_file.read_text()
        await provider.close()


async def test_a_token_that_was_not_stored_is_stored_at_the_end_at_the_latest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """O-070."""

    async def broken(kind: str, key: str, text: str) -> bool:
        raise OSError("no line to the operator")

    with fake_graph(tmp_path) as fake:
        provider = fake.provider()
        provider.sound_alerts(broken)
        blocker = block_rotation(fake)
        assert isinstance(await send(provider), Accepted)
        assert "graph_alarm_failed" in caplog.text
        blocker.rmdir()
        await provider.close()

        [issued] = fake.state.known.refresh_tokens
        assert issued in fake.env_file.read_text()


async def test_a_send_whose_time_is_over_does_not_lose_the_new_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends when the old token is spent and the new one not stored."""
    answered, is_over = asyncio.Event(), asyncio.Event()
    ask = Tokens._ask

    async def late(self: Tokens, token: str) -> httpx2.Response | Failure:
        answer = await ask(self, token)
        answered.set()
        await is_over.wait()
        return answer

    monkeypatch.setattr(Tokens, "_ask", late)
    with fake_graph(tmp_path, Behaviour(revoke_used=True)) as fake:
        provider = fake.provider()
        sending = asyncio.create_task(send(provider))
        await answered.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        is_over.set()
        await provider.close()

        [issued] = fake.state.known.refresh_tokens
        assert issued in fake.env_file.read_text()


async def test_a_token_that_a_person_has_replaced_is_used_at_once(tmp_path: Path) -> None:
    with fake_graph(tmp_path, Behaviour(token_script="401")) as fake:
        provider = fake.provider()
        assert isinstance(await send(provider), Failure)
        write_env(tmp_path, ENV.replace(FIRST_TOKEN, "by-hand"))

        assert isinstance(await send(provider), Accepted)
        assert "by-hand" not in fake.env_file.read_text()
        await provider.close()


async def test_a_persons_token_is_stronger_than_one_that_was_not_stored(tmp_path: Path) -> None:
    behaviour = Behaviour(script="202,401,202", revoke_used=True)
    with fake_graph(tmp_path, behaviour) as fake:
        provider = fake.provider()
        blocker = block_rotation(fake)
        assert isinstance(await send(provider), Accepted)
        blocker.rmdir()
        write_env(tmp_path, ENV.replace(FIRST_TOKEN, "by-hand"))

        assert isinstance(await send(provider), Accepted)

        assert fake.state.known.used == [FIRST_TOKEN, "by-hand"]
        await provider.close()
        assert fake.state.known.refresh_tokens[-1] in fake.env_file.read_text()


@pytest.mark.parametrize("word", ["401", "revoked"])
async def test_a_revoked_token_is_a_fault_of_the_route_with_401(tmp_path: Path, word: str) -> None:
    """O-026, O-064, O-106."""
    with fake_graph(tmp_path, Behaviour(token_script=word)) as fake:
        provider = fake.provider()
        answer = await send(provider)
        await provider.close()

        assert isinstance(answer, Failure)
        assert (answer.error_class, answer.disposition) == ("token_revoked", "route_fault")
        assert (answer.code, answer.maybe_sent) == ("401", False)
        assert fake.sends() == []


@pytest.mark.parametrize(("word", "code"), [("503", "503"), ("429:30", "429"), ("cut", None)])
async def test_a_token_endpoint_that_is_down_is_tried_again(
    tmp_path: Path, word: str, code: str | None
) -> None:
    with fake_graph(tmp_path, Behaviour(token_script=word)) as fake:
        provider = fake.provider()
        answer = await send(provider)
        again = await send(provider)
        await provider.close()

    assert isinstance(answer, Failure)
    assert (answer.disposition, answer.code, answer.maybe_sent) == ("retry", code, False)
    assert isinstance(again, Accepted)


async def test_a_token_that_has_gone_from_the_file_is_named(tmp_path: Path) -> None:
    """O-106."""
    with fake_graph(tmp_path) as fake:
        provider = fake.provider()
        fake.env_file.write_text("GRAPH_SENDER=shop@example.org\n")
        answer = await send(provider)
        await provider.close()

    assert isinstance(answer, Failure)
    assert answer.code == "401"
    assert "GRAPH_REFRESH_TOKEN is missing" in answer.detail


async def test_tokens_are_masked_in_every_text(tmp_path: Path) -> None:
    with fake_graph(tmp_path) as fake:
        provider = fake.provider()
        await send(provider)
        await provider.close()
        known = fake.state.known

    for secret in (FIRST_TOKEN, *known.access_tokens, *known.refresh_tokens):
        assert secret not in redact(f"the server said {secret} twice")
