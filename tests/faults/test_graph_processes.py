"""Real processes that send through Graph: killed while they renew the token, and many at once."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from homing.ports import Accepted
from homing_systems.mock_graph import Behaviour
from homing_systems.mock_graph.application import MockGraph
from tests.unit.graph.fakes import ENV, FIRST_TOKEN, Fake, fake_graph, write_env
from tests.unit.graph.sending import send

ROOT = Path(__file__).parents[2]
BOUND_S = 60
# What the replacement of the file consists of. Each is met before it takes effect; after it is
# before the next one, or the regular end.
WRITES = ("unlink", "write", "fsync", "rename")
MOST_CALLS = 5


def sender(fake: Fake, count: int = 1, tracer: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*tracer, sys.executable, "-m", "tests.faults.graph_sender", str(count)],
        cwd=ROOT,
        env={**os.environ, **fake.environ(), "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stderr=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[bytes]) -> int:
    try:
        process.communicate(timeout=BOUND_S)
    finally:
        process.kill()
    return process.returncode


async def test_a_kill_at_any_write_of_the_rotation_leaves_a_whole_file(tmp_path: Path) -> None:
    """O-071."""
    with fake_graph(tmp_path) as fake:
        killed = {name: kills(fake, name) for name in WRITES}

        assert killed == {"unlink": 1, "write": 1, "fsync": 2, "rename": 1}
        provider = fake.provider()
        assert isinstance(await send(provider), Accepted)
        await provider.close()
        assert not fake.env_file.with_name(".env.new").exists()


@pytest.mark.parametrize(("call", "error"), [("write", "ENOSPC"), ("fsync", "EIO")])
def test_a_disk_that_fails_tears_no_file_and_stops_no_mail(
    tmp_path: Path, call: str, error: str
) -> None:
    """O-070, O-071."""
    with fake_graph(tmp_path) as fake:
        process = sender(fake, tracer=at_call(fake, call, f"error={error}"))
        _, said = process.communicate(timeout=BOUND_S)

        assert process.returncode == 0, said
        assert b"graph_token_not_stored" in said
        assert len(fake.state.ledger()) == 1
        assert fake.env_file.read_text() == ENV


def at_call(fake: Fake, call: str, what: str) -> list[str]:
    """Do this at a system call on the `.env` file, the one beside it, or their folder."""
    tracer = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}"]
    for name in (".env", ".env.new", ""):
        tracer += ["-P", str(fake.env_file.parent / name)]
    return [*tracer, "-e", f"inject={call}:{what}"]


def kills(fake: Fake, call: str) -> int:
    """Kill a process at its n-th call of this kind, until one gets by without."""
    for nth in range(1, MOST_CALLS + 1):
        write_env(fake.env_file.parent)
        code = ended(sender(fake, tracer=at_call(fake, call, f"signal=KILL:when={nth}")))

        text = fake.env_file.read_text()
        tokens = (FIRST_TOKEN, fake.state.known.refresh_tokens[-1])
        assert text in [ENV.replace(FIRST_TOKEN, token) for token in tokens]
        assert fake.env_file.stat().st_mode & 0o777 == 0o600
        if code == 0:
            assert tokens[1] in text
            return nth - 1
        assert code in (-signal.SIGKILL, 128 + signal.SIGKILL)
    raise AssertionError(f"more than {MOST_CALLS} calls of {call}")


def test_processes_share_the_four_requests_and_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-072."""
    watched = Watched(monkeypatch)
    behaviour = Behaviour(latency_s=0.02, revoke_used=True)
    with fake_graph(tmp_path, behaviour) as fake:
        processes = [sender(fake, count=20) for _ in range(3)]
        assert [ended(process) for process in processes] == [0, 0, 0]

        assert len(fake.state.ledger()) == 60
        assert watched.most == 4
        assert [call["status"] for call in fake.calls_of("/token")] == [200, 200, 200]
        assert fake.state.known.refresh_tokens[-1] in fake.env_file.read_text()


class Watched:
    """How many sendMail requests the fake has had at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = self._now = 0
        lock = threading.Lock()
        send_mail = MockGraph._send_mail

        async def counted(fake: MockGraph, request):  # type: ignore[no-untyped-def] # as the original
            with lock:
                self._now += 1
                self.most = max(self.most, self._now)
            try:
                return await send_mail(fake, request)
            finally:
                self._now -= 1

        monkeypatch.setattr(MockGraph, "_send_mail", counted)
