"""Files that a guide shows whole: a block with `title="path"` is the content of that file."""

from __future__ import annotations

import re
from pathlib import Path

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
_FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)


def files_in(*guides: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for guide in guides:
        text = (GUIDES / guide).read_text(encoding="utf-8")
        for path, content in _FILE.findall(text):
            assert path not in found, f"{path} is shown twice"
            found[path] = content
    return found


def write_files(folder: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
