"""The peers on Node.js: BullMQ on Redis, graphile-worker on PostgreSQL.

`python -m benchmarks.peers.node_peers install` fetches them beside their package.json.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.contest.plan import Plan
from benchmarks.contest.queues import compete
from benchmarks.contest.stopwatch import Enqueue

HERE = Path(__file__).parent
PROCESSES = 2
INSTALL_S = 300


def install() -> None:
    """Fetch the locked-by-version packages, once; raise with a reason where that cannot be."""
    if not (shutil.which("node") and shutil.which("npm")):
        raise RuntimeError("node or npm is missing")
    ready = HERE / "node_modules" / ".ready"
    if ready.exists() and ready.stat().st_mtime >= (HERE / "package.json").stat().st_mtime:
        return
    # A lock file would record hosts; the versions in package.json are exact.
    command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
    done = subprocess.run(
        command, cwd=HERE, capture_output=True, text=True, timeout=INSTALL_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"npm install failed: {done.stderr.strip()[-300:]}")
    ready.touch()


class NodeQueue:
    """A queue whose producer and worker are one script."""

    def __init__(
        self,
        script: str,
        config: Mapping[str, object],
        *,
        reset: Callable[[], None],
        remaining: Callable[[], int],
    ) -> None:
        self._script = str(HERE / script)
        self._reset, self._remaining = reset, remaining
        self.config = config

    def _run(self, *arguments: object) -> float:
        command = ["node", self._script, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-800:])
        return float(json.loads(done.stdout.splitlines()[-1])["seconds"])

    def reset(self) -> None:
        self._reset()

    def ways(self) -> Mapping[str, Enqueue]:
        def way(name: str) -> Enqueue:
            return lambda jobs: self._run("produce", name, jobs)

        return {name: way(name) for name in ("single", "concurrent", "bulk")}

    def pace(self, rate_per_s: float, span_s: float) -> int:
        self._run("pace", rate_per_s, span_s)
        return int(rate_per_s * span_s)

    def worker_commands(self) -> Sequence[Sequence[str]]:
        return [["node", self._script, "work"]] * PROCESSES

    def remaining(self) -> int:
        return self._remaining()


def bullmq(plan: Plan) -> NodeQueue:
    import redis

    database = redis.Redis.from_url(plan.servers["redis"])

    def reset() -> None:
        database.flushall()

    return NodeQueue(
        "bullmq.mjs",
        {
            "worker": f"{PROCESSES} processes, concurrency 100, removeOnComplete",
            "redis": "appendfsync everysec",
            "bulk": "addBulk of 1000 at a time",
        },
        reset=reset,
        remaining=lambda: database.llen("bull:q:wait") + database.llen("bull:q:active"),
    )


def graphile(plan: Plan) -> NodeQueue:
    import psycopg

    database = psycopg.connect(plan.servers["postgres"], autocommit=True)

    def reset() -> None:
        queue._run("produce", "single", 0)  # its own migration makes the tables
        for command in ("truncate", "vacuum analyze"):
            database.execute(f"{command} graphile_worker._private_jobs")
        database.execute("checkpoint")

    def remaining() -> int:
        row = database.execute("select count(*) from graphile_worker._private_jobs").fetchone()
        return int(row[0]) if row else 0

    queue = NodeQueue(
        "graphile.mjs",
        {
            "worker": f"{PROCESSES} processes, concurrentJobs 24, localQueue 500, no batch delay",
            "concurrent": "over 16 connections",
            "bulk": "addJobs of 1000 at a time",
        },
        reset=reset,
        remaining=remaining,
    )
    return queue


PEERS = {"bullmq": bullmq, "graphile-worker": graphile}

if __name__ == "__main__":
    install()
    if sys.argv[1:] != ["install"]:
        PLAN = Plan.from_environment()
        compete(PEERS[PLAN.options["peer"]](PLAN), PLAN)
