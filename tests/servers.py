"""Throw-away servers on loopback, for tests and benchmarks.

Each function is a context manager: it starts a real server with durable settings, waits until it
answers, and stops it by its own process id. With `folder` the data outlive the block, and with
`port` the address does too, so that a test can kill a server and bring it back.
"""

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

HOST = "127.0.0.1"
START_S = 30
STOP_S = 15


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; `folder` holds its data and what it printed (`log`)."""

    url: str
    port: int
    pid: int
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "log"


@dataclass(frozen=True, slots=True)
class SmtpSink(Server):
    """Postfix's sink: it accepts mail, counts it and throws it away."""

    def messages(self) -> int:
        """How many messages were accepted so far."""
        _, found, count = self.log.read_text().rpartition("mesg=")
        return int(count.split()[0]) if found else 0


@contextmanager
def postgres(
    *settings: str, folder: Path | None = None, port: int | None = None
) -> Iterator[Server]:
    """A PostgreSQL cluster; each setting reads like `max_connections=20`."""
    binaries = _postgres_binaries()
    port = port or free_port()
    url = f"postgresql://postgres@{HOST}:{port}/postgres"
    with _home(folder, owner=(user := _servant())) as home:
        data = home / "data"
        if not data.exists():
            # Only this empty cluster skips fsync; the server that uses it does not.
            initdb = [
                f"{binaries}/initdb",
                f"--pgdata={data}",
                "--username=postgres",
                "--auth=trust",
            ]
            initdb += ["--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
            subprocess.run(initdb, cwd=home, user=user, stdout=subprocess.DEVNULL, check=True)
        options = {
            "listen_addresses": HOST,
            "port": str(port),
            "unix_socket_directories": str(home),
            "fsync": "on",
            "synchronous_commit": "on",
        } | dict(setting.split("=", 1) for setting in settings)
        command = [f"{binaries}/postgres", "-D", str(data)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        with _running(
            command,
            home,
            ready=lambda: psycopg.connect(url, connect_timeout=5).close(),
            user=user,
            stop=signal.SIGINT,  # "fast": it does not wait for clients to leave
        ) as pid:
            yield Server(url, port, pid, home)


@contextmanager
def pgbouncer(server: Server, *settings: str) -> Iterator[Server]:
    """PgBouncer in transaction mode before a PostgreSQL; each setting reads like `pool_size=2`."""
    port = free_port()
    with _home(None, owner=(user := _servant())) as home:
        options = {
            "listen_addr": HOST,
            "listen_port": str(port),
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": "transaction",
            "ignore_startup_parameters": "extra_float_digits",
        } | dict(setting.split("=", 1) for setting in settings)
        lines = [f"{name} = {value}" for name, value in options.items()]
        configuration = home / "pgbouncer.ini"
        database = f"* = host={HOST} port={server.port} user=postgres"
        configuration.write_text("\n".join(["[databases]", database, "[pgbouncer]", *lines]))
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        url = f"postgresql://postgres@{HOST}:{port}/postgres"
        with _running(
            [program, str(configuration)],
            home,
            ready=lambda: psycopg.connect(url, connect_timeout=5).close(),
            user=user,
            stop=signal.SIGTERM,
        ) as pid:
            yield Server(url, port, pid, home)


@contextmanager
def redis(*options: str, folder: Path | None = None, port: int | None = None) -> Iterator[Server]:
    """A Redis server; options read like `"--maxmemory", "1mb"`."""
    port = port or free_port()
    with _home(folder) as home:
        command = ["redis-server", "--bind", HOST, "--port", str(port), "--dir", str(home)]
        command += ["--appendonly", "yes", "--appendfsync", "always", "--save", "", *options]
        with _running(command, home, ready=lambda: _ping(port)) as pid:
            yield Server(f"redis://{HOST}:{port}/0", port, pid, home)


@contextmanager
def smtp_sink(*options: str, port: int | None = None) -> Iterator[SmtpSink]:
    """Postfix's `smtp-sink`; options are its own, such as `"-r", "RCPT"` for soft refusals."""
    port = port or free_port()
    with _home(None, owner=(user := _servant())) as home:
        # Debian keeps it where only root's PATH looks.
        program = shutil.which("smtp-sink") or "/usr/sbin/smtp-sink"
        command = [program, "-c", *options, f"{HOST}:{port}", "1024"]
        with _running(command, home, ready=lambda: _connect(port).close(), user=user) as pid:
            yield SmtpSink(f"smtp://{HOST}:{port}", port, pid, home)


def free_port() -> int:
    """A port nobody listens on, from below the range the kernel gives to outgoing connections."""
    for port in random.sample(range(15_000, 32_000), 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port among 100 tried")


def _connect(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=5)


def _ping(port: int) -> None:
    with _connect(port) as connection:
        connection.sendall(b"PING\r\n")
        if not (answer := connection.recv(64)).startswith(b"+PONG"):
            raise ConnectionError(answer.decode())  # still loading its file


def _postgres_binaries() -> Path:
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])
    )
    program = found[-1] if found else Path(shutil.which("initdb") or "initdb").resolve()
    return program.parent


def run_as_servant(command: Sequence[str], home: Path) -> None:
    """Run a program of PostgreSQL to its end, as the user that runs its servers."""
    with _home(home, owner=(user := _servant())):
        subprocess.run(command, cwd=home, user=user, stdout=subprocess.DEVNULL, check=True)


def _servant() -> str | None:
    """Who runs what refuses to run as root: PostgreSQL and smtp-sink."""
    if os.geteuid() != 0:
        return None
    return "postgres" if "postgres" in {entry.pw_name for entry in pwd.getpwall()} else "nobody"


@contextmanager
def _home(folder: Path | None, *, owner: str | None = None) -> Iterator[Path]:
    with ExitStack() as stack:
        if folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="homing-", ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(temporary))
        folder.mkdir(parents=True, exist_ok=True)
        if owner:
            shutil.chown(folder, owner)
        yield folder


@contextmanager
def _running(
    command: Sequence[str],
    home: Path,
    *,
    ready: Callable[[], object],
    user: str | None = None,
    stop: signal.Signals = signal.SIGTERM,
) -> Iterator[int]:
    with (home / "log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=home, user=user, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        _await(process, ready, home / "log")
        yield process.pid
    finally:
        process.send_signal(stop)  # does nothing when a test has killed and reaped it
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(process: subprocess.Popen[bytes], ready: Callable[[], object], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            ready()
        except (OSError, psycopg.OperationalError):
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"{process.args!r} did not start:\n{log.read_text()[-2000:]}")
