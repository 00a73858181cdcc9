"""`make screenshots`: the pictures of the guide, or with `--all` every page in both themes and two
widths, empty, healthy, failing and busy, to be looked at."""

from __future__ import annotations

import argparse
import asyncio
import math
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from playwright.sync_api import Browser

from homing.domain.delivery import Fact, FactValue
from homing.domain.message import Email
from homing.engine.process.counters import BOUNDS_MS, MINUTE_MS, RESOLUTIONS
from homing.runtime.app import Homing
from tests.browser.chromium import chromium
from tests.unit.web.served import Served, homing_serve

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "console"
WIDTHS = (1280, 390)
THEMES = ("light", "dark")
SUBJECTS = (
    "Your booking is confirmed",
    "Invoice {number}",
    "Reset your password",
    "Your parcel is on its way",
    "Receipt for order {number}",
)
NAMES = ("ann", "bob", "carla", "dev", "eva", "farid", "grace", "hugo")
# What becomes of the mail in each world; names are those of the stub's test addresses.
WORLDS: dict[str, tuple[int, tuple[str, ...]]] = {
    "empty": (0, ()),
    "healthy": (60, ("",)),
    "failing": (90, ("", "", "", "", "bounce", "maybe", "down", "soft-1", "suppressed")),
    "busy": (100_000, ("", "", "", "", "", "", "bounce", "down", "soft-1", "suppressed")),
}


def mails(count: int, kinds: tuple[str, ...]) -> Iterator[tuple[str, Email]]:
    for number in range(count):
        kind = kinds[number % len(kinds)]
        name = NAMES[number % len(NAMES)]
        to = f"{kind}@stub.test" if kind else f"{name}@example.org"
        subject = SUBJECTS[number % len(SUBJECTS)].format(number=1000 + number)
        text = f"Hello {name.capitalize()},\n\n{subject}.\n\nhttps://shop.example.org/o/{number}"
        link = f"https://shop.example.org/o/{number}"
        html = f"<h2>{subject}</h2><p>Hello {name}, see <a href='{link}'>your order</a>.</p>"
        yield f"order-{number}", Email(to=to, subject=subject, text=text, html=html)


def past(now_ms: int) -> Iterator[Fact]:
    """Counters of a week of ordinary traffic, so that charts have something to show."""
    rng = Random(7)
    for each in RESOLUTIONS.values():
        minutes = each.step_ms // MINUTE_MS
        last = now_ms // each.step_ms
        for number in range(last - each.points, last):
            day = math.sin(number * each.step_ms / 86_400_000 * 2 * math.pi)
            accepted = round(minutes * (30 + 20 * day) * rng.uniform(0.7, 1.3))
            failed = round(accepted * rng.uniform(0, 0.04))
            quick = [0, 0, 2, 20, 60, 12, 4, 1, 1, *([0] * (len(BOUNDS_MS) - 8))]
            value: FactValue = {
                "accepted": accepted,
                "delivered": accepted - failed,
                "failed": failed,
                "waiting": rng.randrange(12),
                "times": " ".join(map(str, quick)),
            }
            yield Fact(each.kind, f"{number:010d}/past/mail", number * each.step_ms, value)


@contextmanager
def world(name: str) -> Iterator[Served]:
    """A service on a store that has lived through this."""
    count, kinds = WORLDS[name]
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/homing.db"

        async def fill() -> None:
            async with Homing(url, provider="stub:", on_unknown="hold", worker=False) as homing:
                batch = list(mails(count, kinds))
                for start in range(0, count, 1000):
                    await homing.submit_many(batch[start : start + 1000], source="shop")
                if count:
                    await homing.store.save([], list(past(round(time.time() * 1000))))

        with ThreadPoolExecutor(1) as executor:
            executor.submit(asyncio.run, fill()).result()
        settings = {"routes__mail__on_unknown": "hold", "routes__mail__retry__ladder": '["2s"]'}
        settings["routes__mail__max_attempts"] = "3"
        with homing_serve(Path(folder), store=url, **settings) as served:
            _settle(served)
            yield served


def _settle(served: Served) -> None:
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        routes = served.call("GET", "/api/v1/stats").json()["routes"]
        states = {} if not routes else routes[0]["states"]
        if not states.get("pending") and not states.get("in_flight"):
            return
        time.sleep(0.2)


def paths(served: Served) -> dict[str, str]:
    found = {
        "home": "/",
        "deliveries": "/deliveries",
        "failures": "/failures",
        "routes": "/routes",
        "route": "/routes/mail",
        "outbox": "/outbox",
        "workers": "/workers",
        "audit": "/audit",
        "access": "/access",
        "settings": "/settings",
        "doctor": "/doctor",
        "search": "/search?q=mailbox",
        "address": "/address?a=ann%40example.org",
        "bulk": "/bulk?verb=replay&matching=1&state=failed",
    }
    for state in ("failed", "delivered"):
        listed: list[dict[str, Any]] = served.call(
            "GET", f"/api/v1/deliveries?state={state}&limit=1"
        ).json()["items"]
        if listed:
            found[state] = f"/deliveries/{listed[0]['delivery_id']}"
    return found


def shoot(browser: Browser, served: Served, path: str, file: Path, theme: Any, width: int) -> None:
    context = browser.new_context(
        color_scheme=theme, viewport={"width": width, "height": 860}, timezone_id="UTC"
    )
    page = context.new_page()
    page.goto(served.url + path)
    if page.query_selector("[data-live]"):
        page.wait_for_selector(".live.on", state="attached")
    page.screenshot(path=file)
    context.close()


def for_the_guide(browser: Browser) -> None:
    GUIDE.mkdir(exist_ok=True)
    with world("failing") as served:
        known = paths(served)
        for name in ("home", "deliveries", "failed", "failures"):
            shoot(browser, served, known[name], GUIDE / f"{name}.png", "light", 1280)


def everything(browser: Browser, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in WORLDS:
        with world(name) as served:
            for page, path in paths(served).items():
                for theme in THEMES:
                    for width in WIDTHS:
                        file = folder / f"{name}-{page}-{theme}-{width}.png"
                        shoot(browser, served, path, file, theme, width)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="all pages, into this folder")
    chosen = parser.parse_args()
    with chromium() as browser:
        if chosen.all is None:
            for_the_guide(browser)
        else:
            everything(browser, chosen.all)


if __name__ == "__main__":
    main()
