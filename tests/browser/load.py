"""`make console-load`: many rows, much traffic, many viewers. Prints figures; asserts nothing.

Every page over a store with `--rows` deliveries: its time, and the CPU time of the server for it,
which other programs on the machine do not bend. Then `--rate` deliveries a second for `--minutes`,
first without a page open, then with one in Chromium and `--viewers` further ones that read
themselves again at every tick; memory of server and browser at the beginning and at the end.
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

from playwright.sync_api import Page

from homing.app import Homing
from homing.domain.message import Email
from tests.browser.chromium import chromium, visitor
from tests.browser.load_meters import Meter, PostgresLog, cpu_s
from tests.browser.load_viewers import viewers
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
    "/api/v1/errors",
    "/metrics",
)
READINGS = 10


async def fill(url: str, rows: int) -> None:
    async with Homing(url, provider="stub:", worker=False) as homing:
        every = mails(rows, KINDS)
        while batch := list(itertools.islice(every, 1000)):
            await homing.submit_many(batch, source="load")
        await homing.engine.run_until_idle()


async def traffic(url: str, rate: int, seconds: float) -> None:
    """From a Homing of its own over the same store, as another process would have it."""
    run = time.time_ns()
    async with Homing(url, provider="stub:", worker=False) as homing:
        begun_s = time.monotonic()
        for second in itertools.count():
            batch = [
                (f"{run}-{second}-{n}", Email(to="ok@stub.test", subject=f"{second}/{n}", text="x"))
                for n in range(rate)
            ]
            await homing.submit_many(batch, source="load")
            if time.monotonic() - begun_s > seconds:
                return
            await asyncio.sleep(max(begun_s + second + 1 - time.monotonic(), 0))


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


def heap_mb(page: Page) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used / 1e6


def run_live(served: Served, url: str, chosen: argparse.Namespace) -> None:
    """CPU per delivery without pages, then with them: the difference is what the pages cost."""
    with ThreadPoolExecutor(1) as apart:

        def work(minutes: float, page: Page | None = None) -> float:
            begun_s, cpu_begun_s = time.monotonic(), cpu_s(served.pid)
            running = apart.submit(asyncio.run, traffic(url, chosen.rate, minutes * 60))
            while not running.done():
                pause_s = max(minutes * 6, 5.0)
                time.sleep(pause_s) if page is None else page.wait_for_timeout(pause_s * 1000)
                shown = "" if page is None else f"; page {heap_mb(page):.1f} MB"
                print(
                    f"{time.monotonic() - begun_s:5.0f} s: server"
                    f" {served.rss_bytes() / 1e6:.0f} MB{shown}",
                    flush=True,
                )
            running.result()
            return (cpu_s(served.pid) - cpu_begun_s) / (time.monotonic() - begun_s)

        alone = work(min(chosen.minutes, 1.0))
        print(f"without pages: {alone * 100:.0f} % of a core")
        with chromium() as browser, visitor(browser, served) as person:
            page = person.go("/deliveries")
            one = work(min(chosen.minutes, 1.0), page)
            print(f"with one page: {one * 100:.0f} % of a core")
            with viewers(served, chosen.viewers, ("/", "/deliveries")) as seen:
                many = work(chosen.minutes, page)
            print(
                f"with {chosen.viewers} further viewers: {many * 100:.0f} % of a core;"
                f" {seen.ticks} ticks, {seen.reads} pages, {seen.failures} failures"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--folder", type=Path, help="keep the store here, or use the one there")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=10.0, help="0: only the pages")
    parser.add_argument("--viewers", type=int, default=200)
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
                if chosen.minutes:
                    run_live(served, url, chosen)


if __name__ == "__main__":
    main()
