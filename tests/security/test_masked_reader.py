"""Web and MCP reach deliveries only through the operations of a caller, which mask them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import homing
from homing.domain.delivery import Delivery
from homing.domain.errors import NotAllowed
from homing.domain.message import Email
from homing.engine.ops.caller import CallerBulk, CallerOperations
from homing.engine.ops.delivery_filter import FILTERS, DeliveryFilter, filter_from
from homing.engine.ops.masking import PersonalDataHidden
from homing.engine.ops.verbs import BULK_VERBS, VERBS, Verb
from homing.testing.clocks import ManualClock

PACKAGE = Path(homing.__file__).parent
# The two places where a caller's operations are made of those of the program.
MADE_IN = {"web/access/seen.py", "mcp/server.py"}
# What the program's own operations may be used for elsewhere: this writes and returns nothing.
WRITES = {"note_access"}
# Functions that read only numbers, facts of the engine, or who has access.
COUNTING = {
    *("count_requests", "history", "paused_routes", "store_warnings", "unserved_queues"),
    *("Sessions",),
}
CANARY = "anna.canary@example.org"


def sources() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("web", "mcp"):
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text())


def is_program(node: ast.expr) -> bool:
    """Whether this names a Homing or its engine: `homing`, `self._homing`, `homing.engine`."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in ("homing", "_homing", "engine")


def reaches(tree: ast.Module) -> Iterator[str]:
    """Each way past the operations of a caller."""
    allowed: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in COUNTING:
            allowed |= {id(argument) for argument in node.args}
        if isinstance(node, ast.Attribute) and node.attr in WRITES:
            allowed.add(id(node.value))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or id(node) in allowed:
            continue
        if is_program(node.value) and node.attr in ("ops", "store", "bulk", "explain", "search"):
            yield f"{ast.unparse(node)} in line {node.lineno}"


def test_web_and_mcp_reach_no_unmasked_reader() -> None:
    found = {name: list(reaches(tree)) for name, tree in sources() if name not in MADE_IN}
    assert {name: ways for name, ways in found.items() if ways} == {}


@pytest.mark.parametrize(
    "text",
    [
        "await homing.ops.show(delivery_id)",
        "await self._homing.store.content(delivery_id)",
        "await self._homing.engine.store.get(delivery_id)",
        "lines = await self._homing.explain(delivery_id)",
        "ops = homing.ops",
    ],
)
def test_a_way_past_it_is_found(text: str) -> None:
    assert list(reaches(ast.parse(f"async def act():\n    {text}")))


async def masked(given: homing.Homing) -> CallerOperations:
    return CallerOperations.of(given.ops, sees_personal_data=False)


def says(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


ARGUMENTS: dict[str, dict[str, Any]] = {
    "confirm": {"evidence": "Anna Canary has phoned"},
    "amend": {"email": Email(to=CANARY, subject="S", text="t")},
}


@pytest.mark.parametrize("verb", VERBS)
async def test_what_a_verb_returns_is_masked(verb: Verb) -> None:
    """Each verb, on a delivery that it can be used on."""
    clock = ManualClock(1_800_000_000_000)
    async with homing.Homing("memory:", provider="stub:", worker=False, clock=clock) as app:
        to = "maybe" if verb == "confirm" else "bounce"
        mail = Email(to=[f"{to}@stub.test", CANARY], subject="S", text="t")
        found = (await app.submit(mail, key=f"for-{CANARY}", metadata={"who": CANARY})).delivery
        if verb != "cancel":
            for _ in range(9):
                await app.engine.run_until_idle()
                clock.advance(43_200)
        if verb == "restore":
            await app.ops.dismiss(found.id, actor="ann", reason="x")
        signed = {"actor": "ann", "reason": "asked by Anna Canary"}
        ops = await masked(app)
        after: Delivery = await ops.use(verb, found.id, **signed, **ARGUMENTS.get(verb, {}))
        shown = await app.ops.show(after.id)

    assert CANARY in says(shown)
    assert "canary" not in says(after).lower()


async def test_everything_that_is_read_is_masked() -> None:
    async with homing.Homing("memory:", provider="stub:", worker=False) as app:
        mail = Email(to=["bounce@stub.test", CANARY], subject="Anna Canary", text="t")
        ticket = await app.submit(mail, key=f"for-{CANARY}", source="shop")
        await app.engine.run_until_idle()
        await app.ops.annotate(ticket.delivery_id, actor="ann", note="Anna Canary has phoned")
        await app.ops.pause("mail", actor="ann", reason="Anna Canary complains")
        for sees in (True, False):
            ops = CallerOperations.of(app.ops, sees_personal_data=sees)
            bulk = CallerBulk.of(app.bulk, ops)
            chosen = DeliveryFilter(source="shop")
            read = {
                "show": await ops.show(ticket.delivery_id),
                "show_many": await ops.show_many([ticket.delivery_id]),
                "list": (await ops.list(chosen)).items,
                "page": (await ops.page(await ops.query(chosen))).items,
                "audit": await ops.audit(ticket.delivery_id),
                "audit_log": await ops.audit_log(),
                "paused": ops.paused("mail"),
                "failures": await ops.failures(),
                "search": await ops.search(ticket.delivery_id),
                "explain": await ops.explain(ticket.delivery_id),
                "views": await ops.views([await app.ops.show(ticket.delivery_id)]),
                "predict": [one async for one in bulk.predict(BULK_VERBS[0], chosen)],
                "text": ops.text(f"550 {CANARY} is unknown"),
            }
            if not sees:
                with pytest.raises(PersonalDataHidden, match="may not see contents"):
                    await ops.content(ticket.delivery_id)
            for name, value in read.items():
                assert ("canary" in says(value).lower()) == sees, name


@pytest.mark.parametrize("name", ["recipient", "key", "source"])
async def test_no_address_can_be_asked_for(name: str) -> None:
    assert name in FILTERS
    chosen = filter_from({name: CANARY})
    async with homing.Homing("memory:", provider="stub:", worker=False) as app:
        ops = await masked(app)
        bulk = CallerBulk.of(app.bulk, ops)
        asked = [
            ops.list(chosen),
            ops.failures(chosen),
            ops.search(CANARY),
            ops.formerly_for(CANARY, 5),
            bulk.count("replay", chosen),
            bulk.count_left_out("replay", chosen),
            bulk.start("replay", chosen, actor="ann", reason="x"),
        ]
        for each in asked:
            with pytest.raises(PersonalDataHidden, match="this role may not") as refusal:
                await each
            assert isinstance(refusal.value, NotAllowed)
