"""E-mail through the durable queue into smtp-sink: made into MIME, marked, sent, settled.

An application accepts the mails and `homing worker` delivers them, in two processes for the two
cores; Postfix beside us uses as many as it likes. The clock stops when the last one is settled in
the store, which is after the sink has it.
"""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.contest.mails import BODY, RECIPIENT, SENDER, SUBJECT
from benchmarks.contest.plan import Plan, report
from benchmarks.ours.app import keys, unsettled, until_settled
from homing import Email, Homing

AT_ONCE = 500
WARM_UP = 500
PROCESSES = 2
SETTLE_S = 120.0
# From when the mails of a full queue are due: long enough to accept them all before.
FILL_S = 3.0
RUNNING = "Homing worker is running"
# A log line per delivery is optional and is not measured here.
LOG_LEVEL = "warning"


@contextmanager
def workers(plan: Plan, environment: dict[str, str]) -> Iterator[None]:
    """`homing worker --processes 2`, ready; ended with its children."""
    command = [sys.executable, "-m", "homing", "worker", "--processes", str(PROCESSES)]
    with subprocess.Popen(
        command, env=os.environ | environment, cwd=plan.data, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            ready = 0
            while ready < PROCESSES:
                line = process.stderr.readline()
                if not line:
                    raise RuntimeError("homing worker did not get ready")
                ready += RUNNING in line
            yield
        finally:
            process.send_signal(signal.SIGTERM)


async def accept(homing: Homing, number: int, send_at: datetime | None = None) -> None:
    unique = keys()
    for _ in range(number // AT_ONCE):
        mails = [
            (next(unique), Email(to=RECIPIENT, subject=SUBJECT, text=BODY)) for _ in range(AT_ONCE)
        ]
        await homing.submit_many(mails, send_at=send_at)


async def settled(homing: Homing, file: Path) -> float:
    """When the last one was; no mail may be left."""
    async with asyncio.timeout(SETTLE_S):
        await until_settled(homing)
    if left := await unsettled(homing):
        raise RuntimeError(f"{left} mails are not settled")
    with closing(sqlite3.connect(file)) as connection:
        [(last_ms,)] = connection.execute("select max(ended_at_ms) from homing_deliveries")
    return float(last_ms) / 1000


async def measure(plan: Plan) -> dict[str, float]:
    file = plan.data / "homing.db"
    environment = {
        "HOMING_STORE": f"sqlite:///{file}",
        "HOMING_PROVIDER": f"{plan.servers['smtp']}?tls=none",
        "HOMING_SENDER": SENDER,
        "HOMING_LOG__LEVEL": LOG_LEVEL,
    }
    homing = Homing(
        environment["HOMING_STORE"],
        provider=environment["HOMING_PROVIDER"],
        sender=SENDER,
        worker=False,
    )
    async with homing:
        with workers(plan, environment):
            await accept(homing, WARM_UP)
            await settled(homing, file)
            began_s = time.time()
            await accept(homing, plan.mails)
            accepted_s = time.time() - began_s
            end_to_end_s = await settled(homing, file) - began_s
            due_s = time.time() + FILL_S
            await accept(homing, plan.mails, send_at=datetime.fromtimestamp(due_s, UTC))
            if time.time() > due_s:
                raise RuntimeError("the queue was not full when it became due")
            await asyncio.sleep(due_s - time.time())
            from_queue_s = await settled(homing, file) - due_s
    return {
        "mail_accept": plan.mails / accepted_s,
        "mail_end_to_end": plan.mails / end_to_end_s,
        "mail_from_queue": plan.mails / from_queue_s,
    }


if __name__ == "__main__":
    plan = Plan.from_environment()
    report(
        asyncio.run(measure(plan)),
        {
            "mails": plan.mails,
            "worker": f"homing worker --processes {PROCESSES}, 8 connections each",
            "accept": f"submit_many of {AT_ONCE} in a process of its own, workers running",
            "settled": "delivered in the store, not only taken by the sink",
            "log": f"level {LOG_LEVEL}",
        },
    )
