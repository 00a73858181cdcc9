"""The order of locks in ARCHITECTURE.md has every lock of the code, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import homing

ROOT = Path(homing.__file__).parent
ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"
MODULES = {"asyncio", "threading", "multiprocessing"}
KINDS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"}


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


def test_every_lock_is_in_the_table() -> None:
    text = section()

    assert sorted(name for name in made() if f"`{name}`" not in text) == []


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
