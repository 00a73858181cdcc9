"""Providers of all routes: opened, checked and closed once each; a bad one stops nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Receipt
from homing.domain.failure import Failure
from homing.engine.process.route_table import RouteTable
from homing.engine.route import Route
from homing.engine.work import providers
from homing.engine.work.handlers import Handlers
from homing.engine.work.providers import Providers
from homing.ports import Accepted, Envelope, Finding, Ready, Transitioned
from tests.unit.engine.providers import Provider, sending
from tests.unit.engine.world import World, quiet, route

REFUSED = Failure("connect_failed", detail="Connection refused")


class Opened(Provider):
    def __init__(self, problem: str | Exception | None = None) -> None:
        super().__init__()
        self.problem = problem
        self.did: list[str] = []
        self.is_up = True

    async def prepare(self, envelope: Envelope) -> Ready | Failure:
        return await super().prepare(envelope) if self.is_up else REFUSED

    async def open(self) -> None:
        self.did.append("open")
        if isinstance(self.problem, Exception):
            raise self.problem

    async def findings(self) -> list[Finding]:
        self.did.append("check")
        if isinstance(self.problem, str):
            return [Finding("provider", "bad", self.problem)]
        return [Finding("provider", "good", "it answers")]

    async def close(self) -> None:
        self.did.append("close")


def routes(*all_of_them: Opened) -> list[Route]:
    return [
        replace(sending(provider), name=f"r{number}") for number, provider in enumerate(all_of_them)
    ]


def test_the_table_has_the_providers_of_steps_too_each_once() -> None:
    shared, other = Opened(), Opened()
    first, second, third = routes(shared, shared, other)
    table = RouteTable([first, second, replace(third, provider=None)], [], Handlers())

    assert table.providers == [shared, other]


async def test_each_is_opened_and_closed_once_whatever_it_is_used_by() -> None:
    shared, other = Opened(), Opened()
    world = World(*routes(shared, shared, other))

    await world.engine.start()
    await quiet()
    await world.engine.stop()

    assert shared.did == other.did == ["open", "check", "close"]


async def test_a_failed_check_is_shown_and_stops_nothing() -> None:
    broken, down, good = Opened(OSError("no such device")), Opened("no server"), Opened()
    world = World(*routes(broken, down, good))

    await world.engine.start()
    await quiet()
    found = dict(world.engine.provider_problems)
    await world.engine.liveness.beat()
    reader = World(store=world.store, clock=world.clock, name="reader")
    await reader.engine.liveness.look()
    await world.submit()
    await world.until_told("succeed")
    await world.engine.stop()

    assert found == {"r0": "OSError: no such device", "r1": "no server"}
    assert reader.engine.liveness.problems_elsewhere == found


async def test_a_provider_that_failed_is_checked_again_until_it_is_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(providers, "CHECK_AGAIN_S", 0.0)
    down = Opened("no server")
    world = World(*routes(down))
    await world.engine.start()
    await quiet()
    assert world.engine.provider_problems == {"r0": "no server"}

    down.problem = None
    await quiet()
    await world.engine.stop()

    assert world.engine.provider_problems == {}
    assert down.did.count("open") == 1


async def test_what_sends_learn_of_a_provider_is_known_at_once() -> None:
    accepted = Accepted(Receipt("250"))
    shared, other = Opened(), Opened()
    found = Providers(routes(shared, shared, other))

    found.learn(shared, REFUSED)
    assert found.problems == {"r0": "Connection refused", "r1": "Connection refused"}
    found.learn(shared, Failure("recipient_refused", "reject"))
    found.learn(other, accepted)
    assert found.problems.keys() == {"r0", "r1"}
    found.learn(shared, accepted)
    assert found.problems == {}
    found.learn(Opened(), REFUSED)
    assert found.problems == {}


async def test_a_provider_fails_from_a_refused_connection_until_an_accepted_send() -> None:
    provider = Opened()
    world = World(*routes(provider))
    await world.engine.start()
    await quiet()
    assert world.engine.provider_problems == {}

    provider.is_up = False
    await world.submit()
    await world.until_told("fail")
    failing = dict(world.engine.provider_problems)
    provider.is_up = True
    await world.submit()
    await world.until_told("succeed")
    well = dict(world.engine.provider_problems)
    await world.engine.stop()

    assert (failing, well) == ({"r0": "Connection refused"}, {})


class ClaimWatcher:
    observes_claims: Literal[True] = True

    def __init__(self) -> None:
        self.names: list[str] = []

    def observe(self, events: Sequence[Transitioned]) -> None:
        self.names += [event.name for event in events]


async def test_claims_are_told_to_observers_that_ask() -> None:
    world, watcher = World(route()), ClaimWatcher()
    world.engine.add_observer(watcher)
    await world.submit()

    await world.run()

    assert watcher.names == ["accept", "claim", "succeed"]
    assert world.names == ["succeed"]
