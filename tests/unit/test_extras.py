"""The extras of the package: each has a use today, and the README says which."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from homing.runtime.extras import EXTRAS as NAMED_WHEN_MISSING

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# Where the distribution is not called like what is imported.
MODULES = {"dkimpy": "dkim", "opentelemetry-sdk": "opentelemetry.sdk"}
# Imported by uvicorn, which parses requests with it, and by a name that the protocol is part of.
IMPORTED_OTHERWISE = {
    "httptools",
    "opentelemetry-exporter-otlp-proto-grpc",
    "opentelemetry-exporter-otlp-proto-http",
}


def name_of(requirement: str) -> str:
    found = re.match(r"[a-z0-9-]+", requirement)
    assert found
    return found.group()


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"all"}))
def test_every_requirement_of_an_extra_is_used(extra: str) -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for requirement in EXTRAS[extra]:
        name = name_of(requirement)
        if name == PROJECT["name"]:
            continue  # another extra, which has a test of its own
        module = MODULES.get(name, name.replace("-", "_"))
        used = re.search(rf"^\s*(?:from|import) {re.escape(module)}\b", source, re.MULTILINE)
        assert used or name in IMPORTED_OTHERWISE, name


def test_all_is_all_that_serves_a_running_program() -> None:
    [everything] = EXTRAS["all"]
    named = set(everything.removeprefix("homing[").removesuffix("]").split(","))

    assert named == EXTRAS.keys() - {"all", "testing"}


def test_the_readme_says_what_each_extra_enables() -> None:
    readme = (ROOT / "README.md").read_text()
    described = set(re.findall(r"^\| `([\w-]+)` \| \w", readme, re.MULTILINE))

    assert described == EXTRAS.keys()
    assert re.search(r"^pip install '?homing\[", readme, re.MULTILINE)


def test_a_missing_module_names_an_extra_that_exists() -> None:
    assert set(NAMED_WHEN_MISSING.values()) <= EXTRAS.keys()


BARE = """
import asyncio, sys
for name in ("idna", "icalendar", "jinja2", "starlette", "uvicorn", "prometheus_client", "pytest"):
    sys.modules[name] = None
from homing import Email, Homing
Homing("memory:", provider="smtp://user:secret@mail.example.org:587", sender="shop@example.org")
async def main():
    async with Homing("sqlite:///outbox.db", provider="stub:") as homing:
        email = Email(to="ann@example.org", subject="Gr\\u00fc\\u00dfe", text="a", html="<p>a</p>")
        print((await homing.send(email)).delivery.state)
asyncio.run(main())
"""


def test_plain_mail_needs_no_extra(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", BARE], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (ran.stdout, ran.stderr) == ("delivered\n", "")


LOADING = """
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None
from homing.plugins.discovery import all_installed
print(all_installed().broken)
"""


def test_every_plugin_is_loaded_without_extras() -> None:
    """Commands that read load all of them: each that is broken would be told every time."""
    absent = [
        MODULES.get(name_of(requirement), name_of(requirement).replace("-", "_"))
        for extra in EXTRAS.keys() - {"all", "testing"}
        for requirement in EXTRAS[extra]
        if name_of(requirement) != PROJECT["name"]
    ]
    ran = subprocess.run(
        [sys.executable, "-c", LOADING, *absent], capture_output=True, text=True, check=False
    )

    assert (ran.stdout, ran.stderr) == ("()\n", "")
