"""Stores and providers by the scheme of their URL, ours and those of a package of a stranger."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from homing import Homing, SettingsError
from homing.runtime.urls import provider_from_url, store_from_url
from tests.unit.cli.programs import clean_environ, run_with, serving, started, until

PROVIDER = '''
"""Amazon SES, as a test imagines it: the messages are lines of a file."""

from urllib.parse import urlsplit

from homing import Receipt
from homing.ports import Accepted, Envelope, Finding


class Ses:
    token_window_s = 0.0
    stays_local = True

    def __init__(self, ledger):
        self._ledger = ledger

    async def prepare(self, envelope: Envelope):
        return Message(self._ledger, envelope)

    async def findings(self):
        return [Finding("provider", "good", "SES answers")]

    async def close(self):
        pass


class Message:
    def __init__(self, ledger, envelope):
        self._ledger, self._envelope = ledger, envelope

    async def commit(self):
        with open(self._ledger, "a") as file:
            print(*self._envelope.recipients, file=file)
        return Accepted(Receipt("ses-1"))

    async def abandon(self):
        pass


def from_url(url):
    return Ses(urlsplit(url).hostname)
'''
STORE = """
from homing.stores.sql.sqlite import SqliteStore


def from_url(url):
    return SqliteStore(url.removeprefix("shelf:///"))
"""
ENTRIES = """
[homing.providers]
ses = homing_ses:from_url
lost = homing_ses:nothing
absent = homing_absent:from_url
constant = homing_ses:__name__

[homing.stores]
shelf = homing_shelf:from_url
"""
SES = "ses://ledger"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the path in which the package `homing-ses` is installed, with its metadata."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "homing_ses.py").write_text(PROVIDER)
    (folder / "homing_shelf.py").write_text(STORE)
    metadata = folder / "homing_ses-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: homing-ses\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRIES)
    return folder


@pytest.fixture
def environ(package: Path) -> dict[str, str]:
    return {
        "PYTHONPATH": str(package),
        "HOMING_STORE": "shelf:///outbox.db",
        "HOMING_PROVIDER": SES,
        "HOMING_SENDER": "shop@example.org",
    }


def test_serve_accepts_and_sends(tmp_path: Path, environ: dict[str, str]) -> None:
    with serving(tmp_path, **environ) as served:
        served.ends_as(served.post("k", to=["ann@example.org"]), "delivered")

    assert (tmp_path / "ledger").read_text() == "ann@example.org\n"


def test_a_worker_sends_what_a_command_has_stored(tmp_path: Path, environ: dict[str, str]) -> None:
    run_with(environ, tmp_path, "send", "--to", "bob@example.org", "--subject", "a", "--text", "b")
    with started(tmp_path, ["-m", "homing", "worker"], **environ):
        until((tmp_path / "ledger").exists, what="the mail")

    assert (tmp_path / "ledger").read_text() == "bob@example.org\n"


def test_doctor_asks_them(tmp_path: Path, environ: dict[str, str]) -> None:
    run_with(environ, tmp_path, "migrate")

    found = json.loads(run_with(environ, tmp_path, "doctor", "--json").stdout)

    assert "SES answers" in json.dumps(found)


LIBRARY = """
import asyncio, sys
from homing import Email, Homing

async def main():
    async with Homing("shelf:///lib.db", provider="ses://ledger", sender="a@example.org") as homing:
        email = Email(to="eve@example.org", subject="a", text="b")
        print((await homing.send(email)).delivery.state)

asyncio.run(main())
print(sorted(name for name in sys.modules if name.startswith("homing.providers.")))
print(sorted(name for name in sys.modules if name in ("homing.stores.jsonl", "psycopg")))
"""


def test_the_library_loads_that_scheme_alone(tmp_path: Path, environ: dict[str, str]) -> None:
    done = run_python(tmp_path, environ, LIBRARY)

    assert done.stdout == "delivered\n[]\n[]\n"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("lost:", "AttributeError: module 'homing_ses' has no attribute 'nothing'"),
        ("absent:", "ModuleNotFoundError: No module named 'homing_absent'"),
        ("constant:", "TypeError: homing_ses:__name__ is not a function of a URL"),
    ],
)
def test_a_broken_package_is_named(
    tmp_path: Path, environ: dict[str, str], url: str, problem: str
) -> None:
    done = run_with(environ | {"HOMING_PROVIDER": url}, tmp_path, "worker", code=1)

    named = f"homing: provider: {url} of package homing-ses 1.0 cannot be loaded: {problem}\n"
    assert done.stderr == named


def test_an_unknown_scheme_lists_those_that_are_installed(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    done = run_with(environ | {"HOMING_PROVIDER": "gmail:"}, tmp_path, "worker", code=1)

    assert "use smtp:, smtps:, graph:, stub:, absent:, constant:, lost: or ses:, or" in done.stderr


def test_an_unknown_scheme_says_what_is_right() -> None:
    providers = "use smtp:, smtps:, graph: or stub:, or install a package that provides it"
    with pytest.raises(SettingsError) as refused:
        Homing("memory:", provider="ses:")
    assert str(refused.value) == f"provider: unknown provider 'ses'; {providers}"

    stores = "use sqlite:, postgresql:, jsonl: or memory:, or install a package that provides it"
    with pytest.raises(SettingsError) as refused:
        Homing("mysql://ann:SECRET@db/shop")
    assert str(refused.value) == f"store: unknown store 'mysql'; {stores}"


@pytest.mark.parametrize("kind", ["provider", "store"])
def test_a_message_lists_our_own_schemes(kind: str) -> None:
    """Each scheme of ours is registered, and has an example."""
    make = provider_from_url if kind == "provider" else store_from_url
    ours = {each.name for each in entry_points(group=f"homing.{kind}s") if _is_ours(each.module)}
    with pytest.raises(SettingsError) as refused:
        make("other:")

    named = refused.value.problem.partition("; use ")[2].partition(", or install")[0]
    assert set(re.findall(r"(\w+):", named)) == ours


def _is_ours(module: str) -> bool:
    return module.startswith("homing.")


MODULES = """
import json, sys
from homing.runtime import urls
urls.{make}_from_url({url!r})
print(json.dumps(sorted(name for name in sys.modules if name.startswith("homing."))))
"""


@pytest.mark.parametrize(
    ("make", "url", "own"),
    [
        ("provider", "stub:", "homing.providers.stub"),
        ("provider", "smtp://mail.example.org", "homing.providers.smtp"),
        ("store", "memory:", "homing.stores.memory"),
        ("store", "jsonl:///x.jsonl", "homing.stores.jsonl"),
        ("store", "sqlite:///x.db", "homing.stores.sql.sqlite"),
    ],
)
def test_a_scheme_loads_no_other(tmp_path: Path, make: str, url: str, own: str) -> None:
    done = run_python(tmp_path, {}, MODULES.format(make=make, url=url))

    loaded = json.loads(done.stdout)
    backends = re.compile(
        r"homing\.(?:providers\.(?:smtp|graph|stub)|stores\.(?:memory|jsonl|sql\.(?:sqlite|postgres)))"
    )
    found = {match.group() for name in loaded if (match := backends.match(name))}
    # Lines of a file are read into the same records as memory keeps.
    assert found == ({own, "homing.stores.memory"} if own == "homing.stores.jsonl" else {own})


MISSING = """
import sys
sys.modules[{package!r}] = None
from homing import Homing, SettingsError
try:
    Homing({store!r}, provider={provider!r})
except SettingsError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("package", "store", "provider", "problem"),
    [
        ("httpx2", "memory:", "graph:", "provider: graph: needs the extra `graph`"),
        ("psycopg", "postgresql://db/a", "stub:", "store: postgresql: needs the extra `postgres`"),
    ],
)
def test_a_missing_extra_is_named(
    tmp_path: Path, package: str, store: str, provider: str, problem: str
) -> None:
    code = MISSING.format(package=package, store=store, provider=provider)

    assert run_python(tmp_path, {}, code).stdout.startswith(problem)


def run_python(
    folder: Path, environ: Mapping[str, str], code: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=clean_environ(environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
