"""Executes a batch under the lock of the queue: one write, one sync, and its answers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from homing.ports import AcceptedLog, Added, Answers, Batch, Claimed, Put, PutAnswer
from homing.stores.jsonl.log import Log


def execute(log: Log, batch: Batch, accepted: AcceptedLog | None) -> Answers:
    """`accepted` is asked under the same lock for what the batch claims, or adds as claimed."""
    # A lease that a power cut makes shorter ends earlier, and that is all.
    durable = bool(batch.puts or batch.purges or any(claim.durable for claim in batch.claims))
    with log.transaction(durable=durable) as transaction:
        puts = transaction.put(batch.puts) if batch.puts else []
        renewals = [transaction.renew(renewal) for renewal in batch.renewals]
        purges = [transaction.purge(rule) for rule in batch.purges]
        claims = [transaction.claim(claim) for claim in batch.claims]
        if accepted is not None:
            puts = [_added(*each, accepted) for each in zip(puts, batch.puts, strict=True)]
            claims = [_claimed(each, accepted) for each in claims]
    return Answers(puts, renewals, purges, claims)


def _added(answers: Sequence[PutAnswer], put: Put, log: AcceptedLog) -> list[PutAnswer]:
    return [
        Added(answer.delivery_id, log.receipt_of(write.delivery))
        if isinstance(answer, Added) and write.delivery.state == "in_flight"
        else answer
        for write, answer in zip(put.writes, answers, strict=True)
    ]


def _claimed(claimed: Sequence[Claimed], log: AcceptedLog) -> list[Claimed]:
    return [replace(one, receipt=log.receipt_of(one.delivery)) for one in claimed]
