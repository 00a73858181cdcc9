"""T18: a refusal does the same work whatever tokens exist, so its time tells nothing of them."""

from __future__ import annotations

import inspect

from homing.engine.access import tokens
from homing.web.access import auth
from tests.unit.web.conftest import CLOSED, Api, running


async def _refused(api: Api, secret: str) -> None:
    answer = await api.client.get("/api/v1/stats", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 401


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
            await _refused(api, secret)
        assert looked == [tokens.digest_of(s) for s in (real[:-1] + "x", "hmg_" + "9" * 48, "x")]


def test_no_secret_is_compared_with_another() -> None:
    """They are only hashed: the code that sees them knows no `==` for them."""
    for source in (inspect.getsource(auth.AccessCheck), inspect.getsource(tokens.Tokens.check)):
        assert "secret ==" not in source
        assert "== secret" not in source
        assert 'found["secret"] ==' not in source
