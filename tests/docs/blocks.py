"""The fenced code blocks of a Markdown document."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

REPOSITORY = Path(__file__).parents[2]
GUIDES = REPOSITORY / "docs" / "guides"
OF_SYSTEMS = REPOSITORY / "systems" / "docs" / "guides"
ATTRIBUTES = {"title", "serves", "not-run"}

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>.*)\n(?P<code>(?:.*\n)*?)(?P=fence)$", re.MULTILINE)


class Block(Struct, frozen=True):
    """One block; `line` is that of its opening fence, counted from 1."""

    document: str
    line: int
    language: str
    attributes: Mapping[str, str]
    code: str

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


def blocks_in(document: Path) -> Iterator[Block]:
    text = document.read_text("utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        language, *words = shlex.split(found["info"]) or [""]
        attributes = dict(word.partition("=")[::2] for word in words)
        place = f"{document.name}:{line}"
        assert language, f"{place}: a block needs a language; `text` if it is none"
        assert attributes.keys() <= ATTRIBUTES, f"{place}: unknown attribute"
        assert all(attributes.values()), f"{place}: an attribute needs a value"
        yield Block(document.name, line, language, attributes, found["code"])


def files_in(*guides: str) -> dict[str, str]:
    """The files that guides show whole, by path: a block with a `title` is such a file."""
    found: dict[str, str] = {}
    for guide in guides:
        for block in blocks_in(GUIDES / guide):
            if (path := block.attributes.get("title")) is not None:
                assert path not in found, f"{path} is shown twice"
                found[path] = block.code
    return found


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
