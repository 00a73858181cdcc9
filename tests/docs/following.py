"""Does what a document says: one folder, one shell and one Python session for the whole of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.docs.blocks import Block, write_files

# For a busy machine; what is ready earlier is not waited for.
PATIENCE_S = 45.0
END = "--end of answer--"
PYTHON_SESSION = f"""
import json, sys
for line in sys.stdin:
    block = json.loads(line)
    exec(compile("\\n" * block["line"] + block["code"], block["document"], "exec"))
    print({END!r}, flush=True)
"""
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MASKS = (
    (UUID, "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"in (?:\d+ (?:d|h|min|s) ?)+"), "in A-WHILE"),
)


class Session:
    """A program that reads commands from its standard input; an error ends it."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def say(self, text: str) -> str:
        """What it prints up to the end of the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(text + "\n")
            self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line == f"{END}\n":
                return "".join(lines)
            lines.append(line)
        raise AssertionError("".join(lines) or "it ended without a word")

    def close(self) -> None:
        """Let it come to its end."""
        printed, _ = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == 0, printed

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Following:
    """A reader of one document, in a folder of its own. Documented ports become free ones."""

    def __init__(self, blocks: Sequence[Block], folder: Path) -> None:
        self._folder = folder
        self._shell = Session(["bash", "-e"], folder)
        self._python = Session([sys.executable, "-c", PYTHON_SESSION], folder)
        self._servers: list[subprocess.Popen[bytes]] = []
        documented = {b.attributes["serves"] for b in blocks if "serves" in b.attributes}
        # What the document shows, and what it is here: ports and ids.
        self._here = {port: str(_free_port()) for port in documented}

    def follow(self, block: Block) -> None:
        code = self._as_here(block.code)
        if "not-run" in block.attributes:
            _check_syntax(block)
        elif "title" in block.attributes:
            write_files(self._folder, {block.attributes["title"]: code})
        elif "serves" in block.attributes:
            self._serve(code, int(self._here[block.attributes["serves"]]))
        elif block.language == "python":
            told = {"document": block.document, "line": block.line, "code": code}
            self._python.say(json.dumps(told))
        elif block.language in ("sh", "bash", "shell"):
            self._shell.say(f"{{ {code}\n}} </dev/null\necho; echo '{END}'")
        elif block.language == "console":
            for command, answer in commands(block.code):
                self._ask(command, answer)

    def _ask(self, command: str, answer: str) -> None:
        """Readers are slower than tests: a command is repeated until its answer is there."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            # It may end with another status than 0, which does not end the shell.
            asked = f"{{ {self._as_here(command)}\n}} </dev/null || true"
            shown = self._shell.say(f"{asked}\necho; echo '{END}'")
            if masked(shown) == masked(self._as_here(answer)):
                break
            assert time.monotonic() < deadline_s, f"{command}\n{shown}"
            time.sleep(0.1)
        self._here |= zip(UUID.findall(answer), UUID.findall(shown), strict=True)
        name, sets, _ = command.partition("=$(")
        assert not sets or self._shell.say(f"echo ${name}\necho '{END}'").strip(), command

    def _serve(self, code: str, port: int) -> None:
        log = self._folder / f"serves-{port}.log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                ["bash", "-ec", code],
                cwd=self._folder,
                # `homing serve` listens on its default port without naming it.
                env={**_environment(), "HOMING_SERVER__PORT": str(port)},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._servers.append(server)
        deadline_s = time.monotonic() + PATIENCE_S
        while not _is_listening(port):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline_s, log.read_text()
            time.sleep(0.05)

    def _as_here(self, code: str) -> str:
        for documented, here in self._here.items():
            code = re.sub(rf"\b{documented}\b", here, code)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                assert [server.poll() for server in self._servers] == [None] * len(self._servers)
                self._shell.close()
                self._python.close()
        finally:
            self._shell.kill()
            self._python.kill()
            for server in self._servers:
                _end_group(server)


def commands(console: str) -> Iterator[tuple[str, str]]:
    """What is typed behind each `$`, with its indented further lines, and the answer shown."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        typed = 1
        while typed < len(lines) and lines[typed].startswith("    "):
            typed += 1
        yield "\n".join(lines[:typed]), "\n".join(lines[typed:])


def masked(text: str) -> str:
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text.strip()


def _check_syntax(block: Block) -> None:
    if block.language == "python":
        compile(block.code, block.place, "exec")
    elif block.language in ("sh", "bash", "shell"):
        subprocess.run(["bash", "-n"], input=block.code, text=True, check=True)


def _environment() -> dict[str, str]:
    """As a reader has it who has installed Homing, with no settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOMING_")}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_listening(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _end_group(server: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
