"""The lines of a delivery log beside the mails that they are about.

A worker delivers a full queue through the provider that takes everything at once, and writes the
log in the same process.
"""

import asyncio
import time

from benchmarks.contest.mails import BODY, RECIPIENT, SENDER, SUBJECT
from benchmarks.contest.plan import Plan, report
from benchmarks.ours.app import keys, until_settled
from homing import Email, Homing
from homing.observers import DELIVERY_LOG
from homing.observers.delivery_log import DeliveryLog
from homing.plugins.programs import build
from homing.ports import Query
from homing.settings import Settings
from homing.settings.tree import LogSettings

MAILS = 2_000
LOOK_EVERY_S = 0.005
LINES_WITHIN_S = 60.0


async def measure(plan: Plan) -> dict[str, float]:
    log = plan.data / "deliveries.log"
    settings = Settings(
        store=f"sqlite:///{plan.data / 'homing.db'}",
        provider="stub:",
        sender=SENDER,
        log=LogSettings(delivery_file=str(log)),
    )
    unique = keys()
    mails = [(next(unique), Email(to=RECIPIENT, subject=SUBJECT, text=BODY)) for _ in range(MAILS)]
    async with build(settings, worker=False) as producer:
        await producer.submit_many(mails)
    began_s = time.perf_counter()
    async with build(settings, worker=True, notifiers=[DeliveryLog(log)]) as worker:
        await until_settled(worker, LOOK_EVERY_S)
        delivered_s = time.perf_counter() - began_s
        async with asyncio.timeout(LINES_WITHIN_S):
            while await _has_due(worker):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(LOOK_EVERY_S)
        logged_s = time.perf_counter() - began_s
    if (lines := log.read_bytes().count(b"\n")) != MAILS:
        raise RuntimeError(f"{lines} lines for {MAILS} mails")
    return {"mail_logged": MAILS / delivered_s, "notices": MAILS / logged_s}


async def _has_due(homing: Homing) -> bool:
    return bool((await homing.store.page(Query(notices_due=True), limit=1)).items)


if __name__ == "__main__":
    report(asyncio.run(measure(Plan.from_environment())), {"mails": MAILS, "notice": DELIVERY_LOG})
