"""The commands in `--help`, in groups by what a person wants to do."""

from __future__ import annotations

from typing import Any

from homing.engine.ops.verbs import ROUTE_VERBS, VERBS

GROUPS: dict[str, tuple[str, ...]] = {
    "Run": ("serve", "worker", "demo", "send"),
    "Inspect": (
        *("status", "list", "show", "why", "attempts", "search", "failures", "workers", "watch"),
        *("audit", "counters"),
    ),
    "Repair": (*VERBS, *ROUTE_VERBS),
    "Administer": ("doctor", "health", "migrate", "token", "user", "config", "compact"),
    "Develop": ("plan", "mcp"),
}
# Longer than a summary may be, so that none is cut off.
SUMMARY_CHARS = 100


def write_groups(group: Any, ctx: Any, formatter: Any) -> None:
    """Write each group with the summaries of its commands; those in no group come first."""
    rows = {
        name: command.get_short_help_str(SUMMARY_CHARS)
        for name in group.list_commands(ctx)
        if not (command := group.commands[name]).hidden
    }
    grouped = {name for names in GROUPS.values() for name in names}
    own = tuple(name for name in rows if name not in grouped)
    for title, names in {"Commands": own, **GROUPS}.items():
        found = [(name, rows[name]) for name in names if name in rows]
        if found:
            with formatter.section(title):
                formatter.write_dl(found)
