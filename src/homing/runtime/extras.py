"""Which extra of Homing installs a package, for the message when it is missing."""

from __future__ import annotations

EXTRAS = {
    "starlette": "web",
    "uvicorn": "web",
    "jinja2": "mail",
    "icalendar": "mail",
    "idna": "mail",
    "dkim": "mail",
    "httpx2": "graph",
    "psycopg": "postgres",
    "mcp": "mcp",
}


def needed_extra(error: ModuleNotFoundError) -> str | None:
    """What to install, as a message says it; None if no extra has the missing package."""
    extra = EXTRAS.get((error.name or "").partition(".")[0])
    return None if extra is None else f"needs the extra `{extra}`: pip install 'homing[{extra}]'"
