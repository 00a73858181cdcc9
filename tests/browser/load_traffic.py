"""Submits a steady number of e-mails a second, as another program beside the service would.

`python -m tests.browser.load_traffic URL RATE SECONDS` prints how many were accepted, in how many
seconds. It is a process of its own, so that what it costs is not taken from the browser or the
viewers.
"""

from __future__ import annotations

import asyncio
import sys
import time

from homing.domain.message import Email
from homing.runtime.app import Homing

# A second's mails come in so many parts.
PARTS = 10


async def submit(url: str, rate: int, seconds: float) -> tuple[int, float]:
    run = time.time_ns()
    accepted = 0
    async with Homing(url, provider="stub:", worker=False) as homing:
        begun_s = time.monotonic()
        while (passed_s := time.monotonic() - begun_s) < seconds:
            # What should have been accepted by the end of this part; lost time is not made up for
            # by more than a second's worth, so that a slow machine is seen and not hidden.
            owed = min(round((passed_s + 1 / PARTS) * rate) - accepted, rate)
            batch = [
                (f"{run}-{accepted + n}", Email(to="ok@stub.test", subject="Load", text="x"))
                for n in range(owed)
            ]
            if batch:
                await homing.submit_many(batch, source="load")
            accepted += len(batch)
            next_s = begun_s + passed_s + 1 / PARTS
            await asyncio.sleep(max(next_s - time.monotonic(), 0))
        return accepted, time.monotonic() - begun_s


if __name__ == "__main__":
    print(*asyncio.run(submit(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
