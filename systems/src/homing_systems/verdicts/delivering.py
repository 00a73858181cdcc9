"""The one way in: a paid session's verdict is recorded, sent, and sent again at once if that
failed. The HTTP service, the webhook and a library call all use it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from homing import Homing
from homing.domain.delivery import Delivery
from homing.domain.errors import StoreLocked
from homing.domain.failure import Failure
from homing.observers.alert_log import AlertFile
from homing.plugins import Service
from homing_systems.verdicts.delivery_log import log_at
from homing_systems.verdicts.lines import other_alert
from homing_systems.verdicts.route import LABELS, NAME
from homing_systems.verdicts.verdict import SOURCE, Verdict, check, request_for

log = logging.getLogger("homing.verdicts")

Word: TypeAlias = Literal["sent", "queued", "dead", "cache_only"]
# A status of the queue, as the answer to a caller.
WORDS: dict[str, Word] = {
    "PENDING": "queued",
    "RETRYING": "queued",
    "DELIVERED": "sent",
    "DEAD": "dead",
}


class Outcome(Struct, frozen=True):
    """What has become of a verdict; `retry_id` names its record, if it has one."""

    outcome: Word
    retry_id: str | None = None


async def deliver(service: Service[Any], verdict: Verdict) -> Outcome:
    """Record it, send it, and try once more at once; the rest is the worker's.

    A session that is known already is not sent again here. Raises InvalidRequest for what may
    never be sent, and StoreError where nothing could be recorded.
    """
    return await _take(service, verdict, send=True)


async def enqueue(service: Service[Any], verdict: Verdict) -> Outcome:
    """Record it only; the worker sends it."""
    return await _take(service, verdict, send=False)


async def _take(service: Service[Any], verdict: Verdict, *, send: bool) -> Outcome:
    check(verdict)
    if not verdict.customer_email:
        log.warning("no_address session_id=%s: the verdict is on its page only", verdict.session_id)
        return Outcome("cache_only")
    if await log_at(service.settings.delivery_log).has(verdict.session_id):
        return Outcome("sent")
    homing = service.homing
    request = request_for(verdict, retry_id=str(uuid.uuid4()))
    accept = homing.send if send else homing.submit
    async with alert_if_locked(service, verdict.session_id):
        await homing.engine.take_lines()  # another program may have queued this session
        ticket = await accept(
            request.message,
            key=request.key,
            route=NAME,
            source=request.source,
            delivery_id=request.delivery_id,
            metadata=request.metadata,
        )
    await _give_notices(homing)
    return outcome_of(ticket.delivery)


@asynccontextmanager
async def alert_if_locked(service: Service[Any], session_id: str) -> AsyncIterator[None]:
    """Around all that asks the queue about a session: a read may need its lock, too."""
    try:
        yield
    except StoreLocked as error:
        text = f"session_id={session_id} was not recorded: {error}"
        await alert(service, "LOCK TIMEOUT", text)
        raise


async def report(service: Service[Any], verdict: Verdict, retry_id: str) -> Outcome | Failure:
    """For the worker of another program, which keeps the record: send it once and say how it went.

    Nothing is recorded here. A session that is delivered is not sent again.
    """
    check(verdict)
    homing = service.homing
    async with alert_if_locked(service, verdict.session_id):
        await homing.engine.ensure_beating()
        known = await known_outcome(service, verdict.session_id)
    if known is not None and known.outcome == "sent":
        return known
    route = homing.engine.routes[NAME]
    new = homing.engine.admission.prepare(route, request_for(verdict, retry_id=retry_id))
    tried = await homing.engine.runner.once(route, new)
    return tried.failure or Outcome("sent", retry_id)


async def known_outcome(service: Service[Any], session_id: str) -> Outcome | None:
    """Of a session that is in the queue or in the delivery log."""
    store = service.homing.store
    key = await store.find(SOURCE, session_id)
    delivery = None if key is None else await store.get(key.delivery_id)
    if delivery is not None:
        return outcome_of(delivery)
    is_logged = await log_at(service.settings.delivery_log).has(session_id)
    return Outcome("sent") if is_logged else None


def outcome_of(delivery: Delivery) -> Outcome:
    return Outcome(WORDS[LABELS.word(delivery)], delivery.id)


async def _give_notices(homing: Homing) -> None:
    """The log lines of what has ended are there when the caller is answered, worker or not."""
    await asyncio.gather(*(notices.give_noted() for notices in homing.engine.notices))


async def alert(service: Service[Any], kind: str, text: str) -> None:
    """A line in ALERT.log about something that is not a dead letter."""
    file = AlertFile(Path(service.settings.alert_log))
    await file.add([other_alert(kind, text, service.homing.engine.clock.now_ms())])
