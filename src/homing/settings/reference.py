"""Generates the settings reference from the tree of settings."""

from __future__ import annotations

from typing import Any

from msgspec import NODEFAULT

from homing.settings.leaves import ANY, Leaf, leaves, takes, values
from homing.settings.masking import shown
from homing.settings.tree import RouteSettings

_HEAD = """\
# Settings

Generated from `src/homing/settings/tree.py` by `make docs`; do not edit.

`homing` reads `homing.toml` in the current folder (or the file named by `--config` or
`HOMING_CONFIG`), then the environment; the environment wins. A name nests by `.` in the file's
tables and by `__` in the environment: `server.port` is `HOMING_SERVER__PORT`. Any setting can be
read from a file, which suits secrets, e.g. `HOMING_PROVIDER_FILE=/run/secrets/smtp`.
Durations are written `30` (seconds), `1.5s`, `5m`, `2h`, `7d`, `1h30m`; what is never removed is
kept `forever`. In the environment, lists
and tables are written as in TOML: `HOMING_ROUTES__MAIL__RETRY='{ladder = ["1m", "5m"]}'`.

Homing refuses to start if a setting is unknown, invalid, contradictory or unused, and names it.
`homing config show` prints the settings in force and where each comes from, with secrets masked.

```toml
store = "sqlite:////var/lib/homing/outbox.db"
provider = "smtp://user:secret@mail.example.org:587"
sender = "Shop <shop@example.org>"

[routes.mail]
retry = {ladder = ["1m", "5m", "30m"]}
max_attempts = 4
retention = {delivered = "30d", payload = "7d"}
```
"""

_TABLE = """\
| setting | in the environment | takes | default | what it does |
| --- | --- | --- | --- | --- |
"""
_ROUTES = f"routes.{ANY}"
_NOTES = {
    _ROUTES: "For one route, by its name. What is left out keeps the route's own value; the"
    " defaults here are those of the route `mail`.\n\n",
    "dkim": 'For one domain, by its name: `[dkim."example.org"]`. Mail whose From is in that'
    " domain, or in one below it, is signed. No shell can set a variable with a dot in its name:"
    ' give `HOMING_DKIM=\'{"example.org" = {selector = "mail", key_path = "key.pem"}}\'`.\n\n',
}
# What "not set" means, where it is not simply "off".
_UNSET = {"retry_after_max": "no limit", "auth": "not set", "max": "no limit"}


def reference(mail: RouteSettings) -> str:
    """The whole page; `mail` is what is in force on that route when nothing is set."""
    own = {f"{_ROUTES}.{name}": value for name, value in values(mail)}
    sections: dict[str, list[str]] = {}
    for leaf in leaves():
        row = _row(leaf, own.get(leaf.name, leaf.default))
        sections.setdefault(_section(leaf.name), []).append(row)
    return "\n".join(
        [
            _HEAD,
            *(
                f"## {name}\n\n{_NOTES.get(name, '')}{_TABLE}{''.join(rows)}"
                for name, rows in sections.items()
            ),
        ]
    )


def _section(name: str) -> str:
    if name.startswith(_ROUTES):
        return _ROUTES
    return name.partition(".")[0] if "." in name else "General"


def _row(leaf: Leaf, default: Any) -> str:
    cells = (f"`{leaf.name}`", f"`{leaf.variable}`", takes(leaf), _shown(leaf, default), leaf.about)
    return f"| {' | '.join(cells)} |\n"


def _shown(leaf: Leaf, default: Any) -> str:
    if default is NODEFAULT:
        return "required"
    if default == ():
        return "none"
    if default is None:
        return _UNSET.get(leaf.name.rpartition(".")[2], "none")
    return f"`{shown(leaf.name, default)}`"
