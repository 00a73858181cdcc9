"""Mail from a full JSONL queue through a fake of Graph: four requests at once must be its limit."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.contest.plan import Plan, report
from benchmarks.ours.app import until_settled
from benchmarks.ours.rest import HOST, _free_port
from homing import Email, Homing
from homing.providers.graph.slots import MOST_REQUESTS

MAILS = 100
# About what the real service takes.
LATENCY_S = 0.25
READY_WITHIN_S = 60.0
SENDER = "shop@example.org"
ENV = f"""GRAPH_TENANT_ID=contoso
GRAPH_CLIENT_ID=client-1
GRAPH_SENDER={SENDER}
GRAPH_REFRESH_TOKEN=first
"""


@contextmanager
def fake_graph(folder: Path) -> Iterator[None]:
    """A process of its own; it answers each call after LATENCY_S."""
    port, env_file = _free_port(), folder / ".env"
    env_file.write_text(ENV)
    env_file.chmod(0o600)
    url = f"http://{HOST}:{port}"
    os.environ |= {
        "GRAPH_ENV_FILE": str(env_file),
        "GRAPH_API_URL": f"{url}/v1.0",
        "GRAPH_LOGIN_URL": url,
    }
    words = ["--port", str(port), "--latency-ms", str(round(LATENCY_S * 1000))]
    process = subprocess.Popen([sys.executable, "-m", "homing_systems.mock_graph", *words])
    try:
        asyncio.run(_until_answering(port))
        yield
    finally:
        process.terminate()
        process.wait()


async def _until_answering(port: int) -> None:
    async with asyncio.timeout(READY_WITHIN_S):
        while True:
            with suppress(ConnectionError):
                _, writer = await asyncio.open_connection(HOST, port)
                writer.close()
                return
            await asyncio.sleep(0.05)


async def drain(queue: Path) -> float:
    """Mails per second."""
    url = f"jsonl:///{queue}"
    async with Homing(url, provider="graph:", sender=SENDER, worker=False) as homing:
        for number in range(MAILS):
            email = Email(to=f"c{number}@example.org", subject="Booked", text="See you Monday")
            await homing.submit(email, key=f"booking-{number}")
    async with Homing(url, provider="graph:", sender=SENDER) as homing:
        began_s = time.perf_counter()
        await until_settled(homing)
        return MAILS / (time.perf_counter() - began_s)


def main() -> None:
    plan = Plan.from_environment()
    with fake_graph(plan.data):
        rate = asyncio.run(drain(plan.data / "mail.jsonl"))
    possible = MOST_REQUESTS / LATENCY_S
    report(
        {"graph_share": rate / possible * 100},
        {"mails": MAILS, "latency_s": LATENCY_S, "requests_at_once": MOST_REQUESTS},
    )


if __name__ == "__main__":
    main()
