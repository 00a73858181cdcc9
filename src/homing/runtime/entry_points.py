"""What installed packages register for Homing: found by name, and loaded only when it is used."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

Group: TypeAlias = Literal["homing.plugins", "homing.providers", "homing.stores"]


def offered(group: Group) -> Mapping[str, EntryPoint]:
    """By name, without loading any. Of two under one name the first on the path counts."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, entry)
    return found


def package_of(entry: EntryPoint) -> str:
    """The package that registers it, with its version, for people."""
    return "unknown" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def summary_of(entry: EntryPoint) -> str:
    """The first line of its module's docstring, or the package it comes from.

    The module is not loaded for this: some take a quarter of a second.
    """
    return _first_line(entry) or f"From package {package_of(entry)}."


def _first_line(entry: EntryPoint) -> str | None:
    with contextlib.suppress(ImportError, OSError, SyntaxError, ValueError):
        spec = find_spec(entry.module)
        if spec is not None and spec.origin is not None:
            text = ast.get_docstring(ast.parse(Path(spec.origin).read_bytes()))
            return text.splitlines()[0] if text else None
    return None
