"""docs/guides/rest.md: every command in it is run, in order, and answers what it shows."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

from homing.web.api.operations import API, OPERATIONS
from tests.docs.following import commands
from tests.unit.web.served import homing_serve

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "rest.md"
PORT = "8025"
END = "--end of answer--"
MASKS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"), "ID"),
    (re.compile(r'(_at_ms":)\d{13}'), r"\1MS"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "TIME"),
)


def masked(text: str) -> str:
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text.strip()


class Shell:
    """One shell for the whole guide: a variable that was set stays set."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port = str(port)
        self.process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command.replace(PORT, self._port)}\necho; echo '{END}'\n")
        self.process.stdin.flush()
        return "".join(iter(self.process.stdout.readline, f"{END}\n"))

    def agrees(self, command: str, shown: str, answer: str) -> bool:
        """What is shown is what the guide shows; a variable that was set holds something."""
        name, sets, _ = command.partition("=$(")
        if sets and not self.run(f"echo ${name}").strip():
            return False
        return masked(shown) == masked(answer)


def test_the_guide_can_be_followed_word_for_word(tmp_path: Path) -> None:
    followed = 0
    with homing_serve(tmp_path, store=f"sqlite:///{tmp_path / 'homing.db'}") as served:
        shell = Shell(served.port, tmp_path)
        try:
            blocks = re.findall(r"```console\n(.*?)```", GUIDE.read_text(), re.DOTALL)
            for command, answer in commands("".join(blocks)):
                shown = shell.run(command)
                # A reader is slower than a test: what was handed in may still be on its way.
                deadline_s = time.monotonic() + 10
                while not shell.agrees(command, shown, answer) and time.monotonic() < deadline_s:
                    time.sleep(0.1)
                    shown = shell.run(command)
                assert masked(shown) == masked(answer), command
                followed += 1
        finally:
            shell.process.kill()
            shell.process.communicate()
    assert followed >= 14


def test_every_path_is_in_the_guide() -> None:
    text = GUIDE.read_text()
    for operation in OPERATIONS:
        last = operation.path.removeprefix(API).rpartition("/")[2]
        last = "ID" if last == "{delivery_id}" else last.upper() if "{" in last else last
        last = last.strip("{}")
        assert f"`{last}`" in text or f"/{last}" in text, last
