"""Stores and providers are chosen by URL: the rest of the code asks what they can do.

Comments may name one, as the reason of a rule, and so may the defaults and examples of settings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import homing

ROOT = Path(homing.__file__).parent
BACKEND = re.compile(r"\b(sqlite|postgres(ql)?|psycopg|jsonl)\b", re.IGNORECASE)
# Where a URL becomes a store or provider, and what implements, tests or imitates one.
BACKENDS = ("stores", "providers", "testing", "runtime/urls.py")
# A database of Django has a kind, and Homing uses the same one; tests use memory.
FRAMEWORKS = ("contrib",)
# Defaults, examples, and which extra installs a package.
URLS = ("settings", "runtime/app.py", "cli/demo.py", "cli/options.py", "runtime/extras.py")


def sources(*but: str) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not any(name == each or name.startswith(f"{each}/") for each in but):
            yield name, ast.parse(path.read_bytes())


def texts(tree: ast.Module) -> Iterator[ast.Constant]:
    """Strings that the program uses: all but the docstrings."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node


def modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_no_message_names_a_backend() -> None:
    found = [
        f"{name}:{text.lineno}: {text.value!r}"
        for name, tree in sources(*BACKENDS, *FRAMEWORKS, *URLS)
        for text in texts(tree)
        if BACKEND.search(str(text.value))
    ]

    assert found == []


def test_no_module_imports_a_store() -> None:
    """`homing.stores.layout` describes records, whatever keeps them."""
    found = [
        f"{name}: {module}"
        for name, tree in sources(*BACKENDS, *FRAMEWORKS)
        for module in modules(tree)
        if re.match(r"homing\.stores\.(sql|jsonl|memory|host)", module)
    ]

    assert found == []
