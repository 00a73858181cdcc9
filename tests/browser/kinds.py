"""An event with two handlers and a job with three stages, for the pages that show them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from homing import Event, Homing, Job, TerminalError


def filled(store: str, text: str = "Ann") -> tuple[str, str]:
    """The ids of an event and of a job, both dead letters in the end."""
    with ThreadPoolExecutor(1) as apart:  # the browser's API has an event loop in this thread
        return apart.submit(asyncio.run, _fill(store, text)).result()


async def _fill(store: str, text: str) -> tuple[str, str]:
    homing = Homing(store, provider="stub:")

    @homing.on("invoice.paid")
    async def book(event: Any) -> None:
        del event

    @homing.on("invoice.paid")
    async def inform(event: Any) -> None:
        raise TerminalError(event.data["customer"])

    @homing.job("review", stages=("fetch", "judge"))
    class Review:
        async def fetch(self, job: Any) -> Any:
            return {"found": job.data["change"]}

        async def judge(self, job: Any) -> None:
            raise TerminalError(job.results["fetch"]["found"])

    data = {"customer": text, "lines": [{"sku": text, "count": 2}]}
    async with homing:
        event = await homing.send(Event("invoice.paid", data), key="invoice-7", source="shop")
        job = await homing.send(Job("review", {"change": text}), key="review-7", source="shop")
        await homing.engine.run_until_idle()
    return event.delivery_id, job.delivery_id
