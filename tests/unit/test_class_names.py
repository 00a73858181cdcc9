"""Classes are named in the words of the field; these names needed their docstring."""

from __future__ import annotations

import ast
from pathlib import Path

import homing

ROOT = Path(homing.__file__).parent
# Each with the word that says what it is.
INSTEAD = {
    "Allowance": "Permits",
    "Convoy": "SendBatch",
    "Escort": "ClaimedWork",
    "Gate": "AccessCheck",
    "Mailing": "EmailComposer",
    "Watching": "Telemetry",
}


def test_no_class_has_a_name_that_was_replaced() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {node.name}: write {INSTEAD[node.name]}"
        for path in sorted(ROOT.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.ClassDef) and node.name in INSTEAD
    ]

    assert found == []
