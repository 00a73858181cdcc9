"""The public modules of Homing, as docs/reference/public-modules.md lists them."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "public-modules.md"


def listed() -> list[str]:
    """In the order of the page."""
    return re.findall(r"^\| `(homing[\w.]*)` \|", PAGE.read_text("utf-8"), re.MULTILINE)


def names_in(module: ModuleType) -> set[str]:
    """The public names of a module: those of `__all__`, or else those that it defines."""
    given = getattr(module, "__all__", None)
    if given is not None:
        return set(given)
    return {
        name
        for name, found in vars(module).items()
        if not name.startswith("_") and _is_defined_in(module, found)
    }


def _is_defined_in(module: ModuleType, found: object) -> bool:
    if inspect.isclass(found) or inspect.isfunction(found):
        return found.__module__ == module.__name__
    return not inspect.ismodule(found)
