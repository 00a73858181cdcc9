"""Providers of all routes: opened, checked and closed once each; a bad one stops nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from homing.domain.failure import Failure
from homing.engine.route import Route
from homing.ports import Transitioned
from tests.unit.engine.providers import Provider, sending
from tests.unit.engine.world import World, quiet, route

DOWN = Failure("connection_refused", detail="no server")


class Opened(Provider):
    def __init__(self, finding: Failure | Exception | None = None) -> None:
        super().__init__()
        self.finding = finding
        self.did: list[str] = []

    async def open(self) -> None:
        self.did.append("open")
        if isinstance(self.finding, Exception):
            raise self.finding

    async def check(self) -> Failure | None:
        self.did.append("check")
        return self.finding if isinstance(self.finding, Failure) else None

    async def close(self) -> None:
        self.did.append("close")


def routes(*providers: Opened) -> list[Route]:
    return [
        replace(sending(provider), name=f"r{number}") for number, provider in enumerate(providers)
    ]


async def test_each_is_opened_and_closed_once_whatever_it_is_used_by() -> None:
    shared, other = Opened(), Opened()
    world = World(*routes(shared, shared, other))

    await world.engine.start()
    await quiet()
    await world.engine.stop()

    assert shared.did == other.did == ["open", "check", "close"]


async def test_a_failed_check_is_shown_and_stops_nothing() -> None:
    broken, down, good = Opened(OSError("no such device")), Opened(DOWN), Opened()
    world = World(*routes(broken, down, good))

    await world.engine.start()
    await quiet()
    found = dict(world.engine.provider_findings)
    await world.submit()
    await world.until_told("succeed")
    await world.engine.stop()

    assert (found["r1"], found["r2"]) == (DOWN, None)
    assert found["r0"] is not None
    assert found["r0"].error_class == "OSError"


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
