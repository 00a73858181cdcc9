"""E-mail from the durable queue into smtp-sink: accepted, made into MIME, sent, settled."""

import asyncio
import time
from urllib.parse import urlsplit

from benchmarks.contest.mails import BODY, RECIPIENT, SENDER, SUBJECT
from benchmarks.contest.plan import Plan, report
from benchmarks.ours.app import keys, unsettled, until_settled
from homing import Email, Homing

AT_ONCE = 500
SETTLE_S = 120.0


async def measure(plan: Plan) -> dict[str, float]:
    """All of it in one process, as an application that sends mail would run it."""
    sink = urlsplit(plan.servers["smtp"])
    homing = Homing(
        f"sqlite:///{plan.data}/homing.db",
        provider=f"smtp://{sink.hostname}:{sink.port}?tls=none",
        sender=SENDER,
    )
    unique = keys()
    async with homing:
        began_s = time.perf_counter()
        for _ in range(plan.mails // AT_ONCE):
            mails = [
                (next(unique), Email(to=RECIPIENT, subject=SUBJECT, text=BODY))
                for _ in range(AT_ONCE)
            ]
            await homing.submit_many(mails)
        accepted_s = time.perf_counter() - began_s
        async with asyncio.timeout(SETTLE_S):
            await until_settled(homing)
        delivered_s = time.perf_counter() - began_s
        if left := await unsettled(homing):
            raise RuntimeError(f"{left} mails are not settled")
    return {"mail_accept": plan.mails / accepted_s, "mail_end_to_end": plan.mails / delivered_s}


if __name__ == "__main__":
    plan = Plan.from_environment()
    report(
        asyncio.run(measure(plan)),
        {
            "mails": plan.mails,
            "worker": "in the same process, 8 connections",
            "accept": f"submit_many of {AT_ONCE}, worker running",
            "settled": "delivered in the store, not only taken by the sink",
        },
    )
