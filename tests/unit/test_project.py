"""The project's own promises: what the repository may not name, and the servers tests lean on."""

import re
import smtplib
import socket
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests import servers

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

# In parts, so that this file does not name what it forbids.
REGISTRIES = (
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("deb", "debian", "org"),
    ("npmjs", "org"),
)
FORBIDDEN = re.compile(
    "|".join(r"\.".join(parts) for parts in REGISTRIES) + r"|(?<![\w.}])/(?:work|root|opt/pypi)/"
)


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_tracked_file_names_a_registry_or_a_path_of_this_machine() -> None:
    named = {
        str(path.relative_to(ROOT)): found.group()
        for path in tracked_files()
        if (found := FORBIDDEN.search(path.read_text(errors="replace")))
    }

    assert named == {}


def test_ci_runs_the_test_command_and_the_checks() -> None:
    commands = (ROOT / ".ci/run").read_text().splitlines()

    assert commands[-2:] == ["make test", "make check"]


def test_the_readme_names_the_same_test_command() -> None:
    assert re.search(r"^\s*make test$", README.read_text(), re.MULTILINE)


def test_postgres_answers_with_durable_settings() -> None:
    with servers.postgres("max_connections=20") as server, psycopg.connect(server.url) as database:
        assert [show(database, name) for name in ("fsync", "synchronous_commit")] == ["on", "on"]
        assert show(database, "max_connections") == "20"
    assert not server.folder.exists()


def show(database: psycopg.Connection[tuple[str]], name: str) -> str:
    row = database.execute("select current_setting(%s)", (name,)).fetchone()
    assert row
    return row[0]


def test_redis_keeps_what_it_acknowledged_when_it_is_killed(tmp_path: Path) -> None:
    with servers.redis(folder=tmp_path) as server:
        assert redis_says(server.port, "SET kept yes") == "+OK"
        subprocess.run(["kill", "-9", str(server.pid)], check=True)
    with servers.redis(folder=tmp_path, port=server.port) as again:
        assert redis_says(again.port, "GET kept") == "$3\r\nyes"


def redis_says(port: int, command: str) -> str:
    with socket.create_connection((servers.HOST, port), timeout=5) as connection:
        connection.sendall(f"{command}\r\n".encode())
        return connection.recv(1024).decode().strip()


def test_smtp_sink_counts_what_it_accepted() -> None:
    with servers.smtp_sink("-h", "sink.test") as sink:
        assert sink.messages() == 0
        with smtplib.SMTP(servers.HOST, sink.port, timeout=5) as client:
            assert client.ehlo()[1].startswith(b"sink.test")
            for _ in range(3):
                client.sendmail("a@example.org", ["b@example.org"], b"Subject: x\r\n\r\nx\r\n")
        assert sink.messages() == 3


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"(?i)bad directive"), servers.redis("--nonsense", "1"):
        pass
