"""Reads a `.env` file: one `NAME=value` a line, with or without `export` and quotes."""

from __future__ import annotations

import re

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_QUOTED = re.compile(r"""(["'])(.*)\1(?:\s+#.*)?""")


def read_env_file(text: str) -> dict[str, str]:
    """Comments and other lines are left out; of a name that is given twice, the last counts."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is not None:
            found[match[1]] = _value(match[2])
    return {name: value for name, value in found.items() if value}


def _value(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    return quoted[2] if quoted else text.partition(" #")[0].rstrip()
