"""Traffic without pages, with one page in Chromium, and with many viewers: rate, CPU, memory.

Each phase says how many deliveries really went through in a second. It is valid if that is what was
asked for; on a machine that is too slow or too busy it is not, and says so.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass

from playwright.sync_api import Page

from tests.browser.chromium import chromium, visitor
from tests.browser.load_meters import cpu_s
from tests.browser.load_viewers import viewers
from tests.unit.web.served import Served

ENOUGH = 0.98
# So many seconds' worth may wait when the traffic ends.
LATE_S = 2.0
LOOKS = 10


@dataclass(slots=True)
class Phase:
    name: str
    seconds: float
    accepted: float
    delivered: float
    waiting: int
    cpu: float
    rss_mb: tuple[float, float]
    heap_mb: tuple[float, float] | None

    def problem(self, rate: int) -> str | None:
        if self.accepted < rate * ENOUGH:
            return f"only {self.accepted:.0f} of {rate}/s were accepted"
        if self.delivered < rate * ENOUGH:
            return f"only {self.delivered:.0f} of {rate}/s were delivered"
        if self.waiting > rate * LATE_S:
            return f"{self.waiting:,} still waited at the end"
        return None

    def line(self) -> str:
        heap = "" if self.heap_mb is None else "{:.1f} -> {:.1f}".format(*self.heap_mb)
        rss = "{:.0f} -> {:.0f}".format(*self.rss_mb)
        return (
            f"{self.name:28}{self.seconds:7.0f}{self.accepted:11.0f}{self.delivered:12.0f}"
            f"{self.waiting:9,}{self.cpu * 100:8.0f}{rss:>16}{heap:>18}"
        )


HEAD = (
    f"{'phase':28}{'s':>7}{'accepted/s':>11}{'delivered/s':>12}{'waiting':>9}{'CPU %':>8}"
    f"{'server RSS MB':>16}{'browser heap MB':>18}"
)


def run_live(served: Served, url: str, rate: int, minutes: float, number: int) -> None:
    """The difference of the phases' CPU is what the pages cost."""
    short = min(minutes, 1.0)
    phases = [_phase(served, url, "no page", rate, short)]
    with chromium() as browser, visitor(browser, served) as person:
        page = person.go("/deliveries")
        phases.append(_phase(served, url, "one page", rate, short, page))
        with viewers(served, number, ("/", "/deliveries")) as seen:
            name = f"one page, {number} viewers"
            phases.append(_phase(served, url, name, rate, minutes, page))
    print(f"viewers: {seen.ticks} ticks, {seen.reads} pages read, {seen.failures} failures")
    print(HEAD)
    for phase in phases:
        print(phase.line())
    for phase in phases:
        problem = phase.problem(rate)
        print(f"{phase.name}: " + ("valid" if problem is None else f"NOT VALID: {problem}"))


def _phase(
    served: Served, url: str, name: str, rate: int, minutes: float, page: Page | None = None
) -> Phase:
    seconds = minutes * 60
    rss_mb, heap = served.rss_bytes() / 1e6, _heap_mb(page)
    begun_s, cpu_begun_s, before = time.monotonic(), cpu_s(served.pid), _states(served)
    command = (sys.executable, "-m", "tests.browser.load_traffic", url, str(rate), str(seconds))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as traffic:
        while traffic.poll() is None:
            _rest(max(seconds / LOOKS, 1.0), traffic, page)
            shown = "" if page is None else f"; browser {_heap_mb(page):.1f} MB"
            passed_s = time.monotonic() - begun_s
            print(f"{name}, {passed_s:.0f} s: server {served.rss_bytes() / 1e6:.0f} MB{shown}")
            sys.stdout.flush()
        said = "" if traffic.stdout is None else traffic.stdout.read()
    if traffic.returncode:
        raise RuntimeError(f"the traffic ended with {traffic.returncode}")
    passed_s, used_s = time.monotonic() - begun_s, cpu_s(served.pid) - cpu_begun_s
    after = _states(served)
    accepted, submitting_s = said.split()
    end_heap = _heap_mb(page)
    return Phase(
        name,
        passed_s,
        int(accepted) / float(submitting_s),
        (after["delivered"] - before["delivered"]) / float(submitting_s),
        after["pending"] + after["in_flight"],
        used_s / passed_s,
        (rss_mb, served.rss_bytes() / 1e6),
        None if heap is None or end_heap is None else (heap, end_heap),
    )


def _rest(most_s: float, traffic: subprocess.Popen[str], page: Page | None) -> None:
    """A page works only while it is waited on."""
    end_s = time.monotonic() + most_s
    while traffic.poll() is None and time.monotonic() < end_s:
        time.sleep(0.2) if page is None else page.wait_for_timeout(200)


def _states(served: Served) -> dict[str, int]:
    found = dict.fromkeys(("delivered", "pending", "in_flight"), 0)
    for route in served.call("GET", "/api/v1/stats", timeout_s=60).json()["routes"]:
        for state, number in route["states"].items():
            if state in found:
                found[state] += number
    return found


def _heap_mb(page: Page | None) -> float | None:
    if page is None:
        return None
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used / 1e6
