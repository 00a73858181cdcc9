"""T18: how long a refusal takes tells nothing about the tokens that exist."""

from __future__ import annotations

import inspect
import statistics
import time

from homing.engine import tokens
from homing.web import auth
from tests.unit.web.conftest import CLOSED, Api, running

ROUNDS = 60


async def _wait_us(api: Api, secret: str) -> float:
    began_ns = time.perf_counter_ns()
    answer = await api.client.get("/api/v1/stats", headers={"Authorization": f"Bearer {secret}"})
    waited_us = (time.perf_counter_ns() - began_ns) / 1000
    assert answer.status_code == 401
    return waited_us


async def test_a_nearly_right_token_is_refused_as_slowly_as_any_other() -> None:
    """A smoke test with a wide margin: comparing letter by letter over a store would show."""
    async with running(CLOSED) as api:
        real = api.tokens["admin"]
        guesses = {
            "nearly": real[:-1] + ("0" if real[-1] != "0" else "1"),
            "unlike": "hmg_" + "9" * (len(real) - 4),
            "longer": real + "0",
        }
        waits: dict[str, list[float]] = {name: [] for name in guesses}
        for _ in range(ROUNDS):
            for name, secret in guesses.items():
                waits[name].append(await _wait_us(api, secret))
        medians = {name: statistics.median(values) for name, values in waits.items()}
        assert max(medians.values()) < 2 * min(medians.values()), medians


async def test_each_unknown_token_costs_one_hash_and_one_look() -> None:
    async with running(CLOSED) as api:
        looked: list[str] = []
        facts = api.homing.store.facts

        async def count(kind: str, prefix: str = "", limit: int = 1000) -> object:
            looked.append(prefix)
            return await facts(kind, prefix, limit)

        api.homing.store.facts = count  # type: ignore[method-assign, assignment]
        real = api.tokens["admin"]
        for secret in (real[:-1] + "x", "hmg_" + "9" * 48, "x"):
            await _wait_us(api, secret)
        assert looked == [tokens.digest_of(s) for s in (real[:-1] + "x", "hmg_" + "9" * 48, "x")]


def test_no_secret_is_compared_with_another() -> None:
    """They are only hashed: the code that sees them knows no `==` for them."""
    for source in (inspect.getsource(auth.Gate), inspect.getsource(tokens.Tokens.check)):
        assert "secret ==" not in source
        assert "== secret" not in source
        assert 'found["secret"] ==' not in source
