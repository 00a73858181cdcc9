"""The order of locks in ARCHITECTURE.md has every lock of the code under which another is taken."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import homing

ROOT = Path(homing.__file__).parent
ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"
MODULES = {"asyncio", "threading", "multiprocessing"}
KINDS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"}
# One method takes and releases each of these, and waits for nothing meanwhile.
INNERMOST = {
    "Homing._making": "makes the engine, which draws random bytes and takes no other lock",
    "LoopThread._scheduling": "puts one call into the loop of its thread",
    "SystemRandom._lock": "copies random bytes",
    "WakePipes._sending": "writes to pipes, and skips those that are full",
}


def section() -> str:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    return text.partition("## Lock order\n")[2].partition("\n## ")[0]


def makes_lock(node: ast.AST | None) -> bool:
    """`threading.Lock()`, or `Lock()` imported by name."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Attribute):
        is_module = isinstance(called.value, ast.Name) and called.value.id in MODULES
        return is_module and called.attr in KINDS
    return isinstance(called, ast.Name) and called.id in KINDS


def names_in(tree: ast.AST, owner: str) -> Iterator[str]:
    """`Class.attribute` or `module.name`; a lock that is assigned to neither is shown by its line,
    which no document has."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from names_in(node, node.name)
            continue
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign) and makes_lock(node.value):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and makes_lock(node.value):
            targets = [node.target]
        elif makes_lock(node):
            yield f"{owner}, line {getattr(node, 'lineno', 0)}: a lock without a name"
        for target in targets:
            if isinstance(target, ast.Attribute):
                yield f"{owner}.{target.attr}"
            else:
                yield f"{owner}.{ast.unparse(target)}"
        if not targets:
            yield from names_in(node, owner)


def made() -> set[str]:
    return {
        name
        for path in ROOT.rglob("*.py")
        for name in names_in(ast.parse(path.read_bytes()), path.stem)
    }


def uses(tree: ast.AST, owner: str, attribute: str) -> tuple[int, list[ast.With]]:
    """How often a class reads its lock, and the `with` blocks that take it."""
    reads, blocks = 0, []
    for class_ in (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == owner):
        for node in ast.walk(class_):
            if isinstance(node, ast.With):
                taken = [ast.unparse(item.context_expr) for item in node.items]
                blocks += [node] if taken == [f"self.{attribute}"] else []
            if isinstance(node, ast.Attribute) and node.attr == attribute:
                reads += isinstance(node.ctx, ast.Load)
    return reads, blocks


def waits(block: ast.With) -> bool:
    """Whether something in it awaits, or takes a lock by `with`."""
    kinds = (ast.Await, ast.With, ast.AsyncWith, ast.AsyncFor)
    return any(isinstance(node, kinds) for line in block.body for node in ast.walk(line))


def test_every_other_lock_is_in_the_table() -> None:
    text = section()

    assert sorted(name for name in made() - INNERMOST.keys() if f"`{name}`" not in text) == []


@pytest.mark.parametrize("name", INNERMOST)
def test_an_innermost_lock_is_held_for_one_block_that_does_not_wait(name: str) -> None:
    assert name in made()
    found = [uses(ast.parse(path.read_bytes()), *name.split(".")) for path in ROOT.rglob("*.py")]
    reads = sum(each for each, _ in found)
    blocks = [block for _, each in found for block in each]

    assert reads == len(blocks) > 0
    assert not any(map(waits, blocks))


def test_every_lock_of_the_table_is_made() -> None:
    named = set(re.findall(r"`(\w+\.\w+)`", section()))

    assert named - made() == set()


def test_a_lock_is_found_however_it_is_made() -> None:
    tree = ast.parse(
        "import threading\n"
        "from asyncio import Semaphore\n"
        "_one = threading.RLock()\n"
        "class Pool:\n"
        "    def __init__(self):\n"
        "        self._two: Semaphore = Semaphore(2)\n"
        "        self._all = [threading.Condition() for _ in range(3)]\n"
    )

    assert list(names_in(tree, "module")) == [
        "module._one",
        "Pool._two",
        "Pool, line 7: a lock without a name",
    ]
