"""`make console-load`: many rows, much traffic, many viewers. Prints figures; asserts nothing.

Every page over a store with `--rows` deliveries; then `--rate` deliveries a second for `--minutes`
with one page open in Chromium, and `--viewers` further pages; memory of server and browser at the
beginning and at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import socket
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from playwright.sync_api import Page

from homing.app import Homing
from homing.domain.message import Email
from tests.browser.chromium import chromium, visitor
from tests.browser.screenshots import mails
from tests.unit.web.served import Served, homing_serve

KINDS = ("", "", "", "", "", "", "bounce", "suppressed")
PATHS = (
    "/",
    "/deliveries",
    "/deliveries?state=failed",
    "/deliveries?source=load",
    "/failures",
    "/address?a=bounce%40stub.test",
    "/address?a=ann%40example.org",
    "/search?q=order-77",
    "/search?q=no+such+mailbox",
    "/routes/mail",
    "/outbox",
    "/audit",
)


async def fill(url: str, rows: int) -> None:
    async with Homing(url, provider="stub:", worker=False) as homing:
        every = mails(rows, KINDS)
        while batch := list(itertools.islice(every, 1000)):
            await homing.submit_many(batch, source="load")
        await homing.engine.run_until_idle()


def time_pages(served: Served) -> None:
    for path in PATHS:
        times_ms = []
        status = 0
        for _ in range(5):
            begun_s = time.perf_counter()
            status = served.call("GET", path).status
            times_ms.append((time.perf_counter() - begun_s) * 1000)
        print(f"{status}  first {times_ms[0]:7.1f} ms  then {min(times_ms):7.1f} ms  {path}")


async def traffic(url: str, rate: int, seconds: float) -> None:
    """By another process in spirit: its own connection to the same store."""
    async with Homing(url, provider="stub:", worker=False) as homing:
        begun_s = time.monotonic()
        for second in itertools.count():
            batch = [
                (f"t{second}-{n}", Email(to="ok@stub.test", subject=f"{second}/{n}", text="x"))
                for n in range(rate)
            ]
            await homing.submit_many(batch, source="load")
            if time.monotonic() - begun_s > seconds:
                return
            await asyncio.sleep(max(begun_s + second + 1 - time.monotonic(), 0))


def watch(served: Served, viewers: int) -> list[socket.socket]:
    """Streams of further pages."""
    opened = []
    for _ in range(viewers):
        connection = served.connect()
        connection.sendall(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        opened.append(connection)
    return opened


def heap_mb(page: Page) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--viewers", type=int, default=200)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as apart:
        url = f"sqlite:///{folder}/homing.db"
        apart.submit(asyncio.run, fill(url, chosen.rows)).result()
        with homing_serve(Path(folder), store=url) as served:
            time_pages(served)
            streams = watch(served, chosen.viewers)
            with chromium() as browser, visitor(browser, served) as person:
                page = person.go("/deliveries")
                work = apart.submit(asyncio.run, traffic(url, chosen.rate, chosen.minutes * 60))
                process = psutil.Process(served.pid)
                while not work.done():
                    page.wait_for_timeout(max(chosen.minutes * 6000, 5000))
                    print(
                        f"server {served.rss_bytes() / 1e6:.0f} MB,"
                        f" {process.cpu_times().user:.0f} s of CPU; page {heap_mb(page):.1f} MB"
                    )
                work.result()
            for stream in streams:
                stream.close()


if __name__ == "__main__":
    main()
