"""The guides for authors import public names alone, and name every capability that there is."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

import homing.build
import homing.build.stores
from homing.ports import provider, store_capabilities
from tests.docs.blocks import GUIDES, Block, blocks_in

BUILDING = ("writing-a-plugin.md", "writing-a-provider.md", "writing-a-store.md")
PUBLIC = ("homing", "homing.build", "homing.build.stores", "homing.testing.contract")
INTERNAL = re.compile(
    r"\bhoming\.(?:content|domain|engine|observers|ports|providers|settings|stores|web)\b"
)


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


@pytest.mark.parametrize("guide", BUILDING)
def test_a_guide_for_authors_imports_public_names_alone(guide: str) -> None:
    blocks = [block for block in blocks_in(GUIDES / guide) if block.language == "python"]
    imported = [(block.place, *each) for block in blocks for each in imports_in(block)]

    assert imported
    assert [each for each in imported if each[1] not in PUBLIC] == []
    assert [
        each
        for each in imported
        if each[2] and each[2] not in importlib.import_module(each[1]).__all__
    ] == []


@pytest.mark.parametrize("guide", BUILDING)
def test_a_guide_for_authors_names_no_internal_module(guide: str) -> None:
    assert INTERNAL.findall((GUIDES / guide).read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("guide", "port", "public"),
    [
        ("writing-a-provider.md", provider, homing.build),
        ("writing-a-store.md", store_capabilities, homing.build.stores),
    ],
)
def test_a_guide_for_authors_names_every_capability(
    guide: str, port: ModuleType, public: ModuleType
) -> None:
    """A capability is a Protocol that the engine asks for at run time."""
    capabilities = {
        name
        for name, found in vars(port).items()
        if inspect.isclass(found) and getattr(found, "_is_runtime_protocol", False)
    }
    text = (GUIDES / guide).read_text("utf-8")

    assert capabilities - set(public.__all__) == set()
    assert {name for name in capabilities if f"`{name}`" not in text} == set()
