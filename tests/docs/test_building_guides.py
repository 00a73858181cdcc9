"""The guides for authors import public names alone, and name every capability that there is."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

import homing.ports
from homing.ports import provider, store_capabilities
from tests import public_modules
from tests.docs.blocks import GUIDES, Block, blocks_in

BUILDING = ("writing-a-plugin.md", "writing-a-provider.md", "writing-a-store.md")
INTERNAL = re.compile(r"\bhoming\.(?:engine|runtime|settings)\b")


def imports_in(block: Block) -> Iterator[tuple[str, str]]:
    """Modules of Homing, each with a name that is imported from it; empty for the module itself."""
    for node in ast.walk(ast.parse(block.code)):
        if isinstance(node, ast.ImportFrom):
            found = [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        else:
            continue
        yield from (each for each in found if each[0].split(".")[0] == "homing")


def is_public(module: str, name: str) -> bool:
    public = public_modules.listed()
    if f"{module}.{name}" in public or not name:
        return True
    return module in public and name in public_modules.names_in(importlib.import_module(module))


@pytest.mark.parametrize("guide", BUILDING)
def test_a_guide_for_authors_imports_public_names_alone(guide: str) -> None:
    blocks = [block for block in blocks_in(GUIDES / guide) if block.language == "python"]
    imported = [(block.place, *each) for block in blocks for each in imports_in(block)]

    assert imported
    assert [each for each in imported if not is_public(*each[1:])] == []


@pytest.mark.parametrize("guide", BUILDING)
def test_a_guide_for_authors_names_no_internal_module(guide: str) -> None:
    assert INTERNAL.findall((GUIDES / guide).read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("guide", "port"),
    [("writing-a-provider.md", provider), ("writing-a-store.md", store_capabilities)],
)
def test_a_guide_for_authors_names_every_capability(guide: str, port: ModuleType) -> None:
    """A capability is a Protocol that the engine asks for at run time."""
    capabilities = {
        name
        for name, found in vars(port).items()
        if inspect.isclass(found) and getattr(found, "_is_runtime_protocol", False)
    }
    text = (GUIDES / guide).read_text("utf-8")

    assert capabilities - set(homing.ports.__all__) == set()
    assert {name for name in capabilities if f"`{name}`" not in text} == set()
