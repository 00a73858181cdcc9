"""`make console-load`: many rows, much traffic, many viewers. Prints figures; asserts nothing.

Every page over a store with `--rows` deliveries: its time, and the CPU time of the server for it,
which other programs on the machine do not bend. Then `--rate` deliveries a second (load_live.py):
for a minute without a page open, for a minute with one in Chromium, and for `--minutes` with
`--viewers` further ones that read themselves again at every tick; how many really went through in a
second, and the memory of server and browser at the beginning and at the end. With `--backlogs`, how
fast a backlog is worked off without and with a page open (load_backlog.py).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from homing.runtime.app import Homing
from tests.browser.load_backlog import run_backlogs
from tests.browser.load_live import run_live
from tests.browser.load_meters import Meter, PostgresLog, cpu_s
from tests.browser.screenshots import mails
from tests.servers import postgres
from tests.unit.web.served import Served, homing_serve

KINDS = ("", "", "", "", "", "", "bounce", "suppressed")
PATHS = (
    "/",
    "/?span=week",
    "/deliveries",
    "/deliveries?state=failed",
    "/deliveries?state=delivered&route=mail",
    "/deliveries?state=pending",
    "/deliveries?state=dismissed",
    "/deliveries?source=load",
    "/deliveries?source=no-such-program",
    "/deliveries?state=failed&source=no-such-program",
    "/deliveries?status=failed&error_class=550",
    "/failures",
    "/address?a=bounce%40stub.test",
    "/address?a=ann%40example.org",
    "/address?a=nobody%40example.org",
    "/search?q=order-77",
    "/search?q=no+such+mailbox",
    "/search?q=nothing-like-this",
    "/bulk?verb=replay&matching=1&state=failed",
    "/routes",
    "/routes/mail",
    "/outbox",
    "/workers",
    "/audit",
    "/access",
    "/settings",
    "/api/v1/stats",
    "/api/v1/failures",
    "/metrics",
)
READINGS = 10
BACKLOG = 20_000


async def fill(url: str, rows: int) -> None:
    async with Homing(url, provider="stub:", worker=False) as homing:
        every = mails(rows, KINDS)
        while batch := list(itertools.islice(every, 1000)):
            await homing.submit_many(batch, source="load")
        await homing.engine.run_until_idle()


@contextmanager
def store(kind: str, folder: Path) -> Iterator[tuple[str, PostgresLog | None]]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/homing.db", None
        return
    # Every statement with its time: the slowest of a page is named beside it.
    with postgres("log_min_duration_statement=5", folder=folder / "postgres") as server:
        yield server.url, PostgresLog(server)


def settle(served: Served) -> None:
    """Wait until it has given the notices of what was filled in; that takes minutes of CPU."""
    used_s = 0.0
    for _ in range(300):
        before_s, used_s = used_s, cpu_s(served.pid)
        if used_s - before_s < 0.05:
            return
        time.sleep(1)


def time_pages(served: Served, log: PostgresLog | None) -> None:
    meter = Meter(served.pid, None if log is None else log.pid)
    shown = served.call("GET", "/api/v1/deliveries?state=failed&limit=1").json()["items"]
    paths = [*PATHS, *(f"/deliveries/{each['delivery_id']}" for each in shown)]
    print("first ms  best ms  CPU ms (server, database)  page")
    for path in paths:
        times_ms, size = [], 0
        before = meter.read()
        for _ in range(READINGS):
            begun_s = time.perf_counter()
            answer = served.call("GET", path, timeout_s=120)
            times_ms.append((time.perf_counter() - begun_s) * 1000)
            assert answer.status in (200, 303), (path, answer.status)
            size = len(answer.body)
        own_ms, theirs_ms = (
            (b - a) / READINGS * 1000 for a, b in zip(before, meter.read(), strict=True)
        )
        print(
            f"{times_ms[0]:8.1f} {min(times_ms):8.1f} {own_ms:8.1f} {theirs_ms:8.1f}"
            f"  {path}  {size / 1000:.0f} kB"
        )
        if log is not None:
            for line in log.slowest():
                print(f"          {line}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--folder", type=Path, help="keep the store here, or use the one there")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=10.0, help="0: only the pages")
    parser.add_argument("--viewers", type=int, default=200)
    parser.add_argument("--backlogs", type=int, default=0, help="so many rounds of 20,000")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        filled = folder / "filled"
        with store(chosen.store, folder) as (url, log):
            if not filled.exists():
                begun_s = time.monotonic()
                with ThreadPoolExecutor(1) as apart:
                    apart.submit(asyncio.run, fill(url, chosen.rows)).result()
                filled.touch()
                print(f"{chosen.rows:,} rows in {time.monotonic() - begun_s:.0f} s", flush=True)
            with homing_serve(folder, store=url) as served:
                settle(served)
                time_pages(served, log)
                if chosen.backlogs:
                    run_backlogs(served, url, BACKLOG, chosen.backlogs)
                if chosen.minutes:
                    run_live(served, url, chosen.rate, chosen.minutes, chosen.viewers)


if __name__ == "__main__":
    main()
