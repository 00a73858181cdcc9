"""The real engine over the provider: doubt is settled by a lookup where that is permitted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from homing import Homing, Job
from homing.domain import identity
from homing.domain.delivery import Content, Delivery
from homing.domain.failure import Failure
from homing.domain.policy import Plan
from homing.engine.intake.admitted import Admitted
from homing.engine.route import Route
from homing.engine.work.steps import SendStep
from homing.mock_graph import Behaviour
from homing.ports import Envelope, Ready
from homing.providers.graph.provider import GraphProvider
from homing.providers.graph.settings import settings_from
from tests.unit.engine.world import Bell, World, stage
from tests.unit.graph.fakes import Fake, fake_graph
from tests.unit.graph.sending import MIME, TOKEN

ADDRESS = "ann@example.org"
DRAFTS = "Mail.Send Mail.ReadWrite"


def compose(delivery: Delivery, content: Content) -> bytes:
    message_id = identity.message_id(delivery, "example.org").encode()
    return MIME.replace(b"<%s@example.org>" % TOKEN.encode(), message_id)


def mail_route(provider: GraphProvider, **rules: Any) -> Route:
    return Route(
        name="mail",
        plan=Plan(stages=(stage("send", attempts=2, sends=True),), **rules),
        steps={"send": SendStep(provider, compose)},
        provider=provider,
        admit=lambda message: Admitted.of(message, recipients=(ADDRESS,)),
    )


@asynccontextmanager
async def world(
    folder: Path, behaviour: Behaviour, bell: Bell | None = None, **rules: Any
) -> AsyncIterator[tuple[World, Fake]]:
    with fake_graph(folder, behaviour) as fake:
        provider = fake.provider()
        yield World(mail_route(provider, **rules), alarm=bell), fake
        await provider.close()


async def test_a_lost_answer_is_looked_up_and_nothing_is_sent_twice(tmp_path: Path) -> None:
    behaviour = Behaviour(scope=DRAFTS, script="202-cut")
    async with world(tmp_path, behaviour) as (here, fake):
        accepted = await here.submit()
        await here.run()
        assert (await here.get(accepted.id)).maybe_sent

        await here.run(after_s=120)

        after = await here.get(accepted.id)
        assert (after.state, after.maybe_duplicate) == ("delivered", False)
        assert after.receipt is not None
        assert after.receipt.evidence == "lookup"
        assert len(fake.state.ledger()) == 1


async def test_without_the_permission_it_is_sent_again_at_its_time_and_flagged(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, Behaviour(script="202-cut")) as (here, fake):
        accepted = await here.submit()
        await here.run()

        await here.run(after_s=120)

        after = await here.get(accepted.id)
        assert (after.state, after.maybe_duplicate) == ("delivered", True)
        assert len(fake.state.ledger()) == 2


async def test_without_the_permission_the_last_lost_answer_ends_it_at_once(tmp_path: Path) -> None:
    async with world(tmp_path, Behaviour(script="500,500")) as (here, _):
        accepted = await here.submit()
        await here.run()
        await here.run(after_s=120)

        after = await here.get(accepted.id)
        assert (after.state, after.failed_because) == ("failed", "uncertain")


async def test_a_revoked_token_pauses_the_route_and_shows_in_its_health(tmp_path: Path) -> None:
    async with world(tmp_path, Behaviour(token_script="revoked")) as (here, _):
        accepted = await here.submit()
        await here.run()

        assert (await here.get(accepted.id)).state == "pending"
        assert here.engine.pausing.holds_back("mail", is_probe=False)
        assert "mail" in here.engine.liveness.problems


async def test_a_token_that_cannot_be_stored_reaches_the_alarm_of_the_program(
    tmp_path: Path,
) -> None:
    """O-070."""
    bell = Bell()
    async with world(tmp_path, Behaviour(), bell) as (here, fake):
        fake.env_file.with_name(".env.new").mkdir()
        accepted = await here.submit()
        await here.run()

        assert (await here.get(accepted.id)).state == "delivered"
        [alert] = bell.alerts
        assert (alert.kind, alert.at_ms) == ("token_lost", here.now_ms)


class Watched(GraphProvider):
    """Counts the sends that are in `prepare` at once: their time limits run while they wait."""

    now = most = 0

    async def prepare(self, envelope: Envelope) -> Ready | Failure:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await super().prepare(envelope)
        finally:
            self.now -= 1


async def test_a_backlog_does_not_wait_on_the_time_limits_of_its_attempts(tmp_path: Path) -> None:
    with fake_graph(tmp_path, Behaviour(latency_s=0.02)) as fake:
        provider = Watched(settings_from(fake.environ()))
        async with Homing("memory:", routes=[mail_route(provider)]) as homing:
            for _ in range(48):
                await homing.submit(Job("mail"))
            async with asyncio.timeout(60):
                while len(fake.state.ledger()) < 48:  # noqa: ASYNC110 - in the fake's thread
                    await asyncio.sleep(0.02)

        assert 1 < provider.most <= provider.most_at_once
