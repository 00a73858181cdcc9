"""What another program has done to a row of `core.outbox`, done to its event."""

from __future__ import annotations

from msgspec.structs import replace

from homing import Homing
from homing.domain import transitions
from homing.domain.delivery import Change, Delivery, Fact
from homing.domain.errors import NotAllowed
from homing.domain.failure import Failure
from homing.plugins import handler_names, now_ms
from homing.ports import Query
from homing.stores.layout import Record

REPLAY = "outbox_replay"
TABLE = "core.outbox"
FIXED = ("event_type", "source", "target", "idempotency_key")
MOST_HANDLERS = 1000


async def follow(homing: Homing, event: Delivery, row: Record | None, by: str) -> None:
    """Replay it, dismiss it, restore it or take its delivery back: whatever the row says."""
    if row is None:
        raise NotAllowed("rows are not deleted: set deleted_at; it is written again")
    _refuse_other_event(event, row)
    history = row["failure_history"]
    is_replayed = len(history) == len(event.failure_history) + 1
    if len(history) != len(event.failure_history) and not is_replayed:
        raise NotAllowed("failure_history: core.outbox_replay adds one entry, nothing else does")
    if event.state == "delivered" and (is_replayed or row["status"] == "failed"):
        error = history[-1]["last_error"] if is_replayed else row["last_error"]
        event = await _take_back(homing, event, error or "", by or TABLE)
    who = history[-1]["replayed_by"] if is_replayed else by or TABLE
    if event.state == "dismissed" and (is_replayed or row["deleted_at"] is None):
        event = await _restore(homing, event, who)
    if is_replayed:
        event = await homing.ops.replay(
            event.id,
            actor=who,
            reason=REPLAY,
            generation=row["generation"],
            allows_earlier=True,
        )
    if row["deleted_at"] is not None and event.state == "failed":
        event = await homing.ops.dismiss(event.id, actor=by or TABLE, reason=TABLE)
    _refuse_other_state(event, row)


def _refuse_other_event(event: Delivery, row: Record) -> None:
    now = (event.topic, event.source, event.metadata.get("target"), event.key)
    for name, value in zip(FIXED, now, strict=True):
        if row[name] != value:
            raise NotAllowed(f"{name} of a stored event does not change: it is written again")


def _refuse_other_state(event: Delivery, row: Record) -> None:
    is_deleted = event.state in ("dismissed", "delivered")
    if row["deleted_at"] is not None and not is_deleted:
        raise NotAllowed(
            f"deleted_at: the event is {event.state}, and only a failed one is deleted"
        )
    if row["status"] == "failed" and event.state not in ("failed", "dismissed"):
        raise NotAllowed(f"status: an event that is {event.state} does not become failed")


async def _take_back(homing: Homing, event: Delivery, error: str, by: str) -> Delivery:
    """An operator says that a delivered event failed. Who has handled it is kept, so that a replay
    does not call these handlers again."""
    at_ms = now_ms(homing)
    after = replace(
        event,
        state="failed",
        failed_because="rejected",
        failure=Failure("taken_back", "reject", detail=error),
        updated_at_ms=at_ms,
        ended_at_ms=at_ms,
    )
    facts = await _handled(homing, event)
    change = Change(after, facts=tuple(facts))
    return await _saved(homing, change, "take_back", by)


async def _handled(homing: Homing, event: Delivery) -> list[Fact]:
    rows = [event]
    if event.fanned_out:
        query = Query(route=event.route, parent_id=event.id)
        rows = [*(await homing.store.page(query, limit=MOST_HANDLERS)).items]
    names = await handler_names(homing.store, rows)
    return [
        Fact(
            "event_handled",
            f"{event.id}/{names[row.id]}",
            row.ended_at_ms or 0,
            {"key": event.key, "handler": names[row.id], "event_id": event.id},
        )
        for row in rows
        if row.id in names and row.state == "delivered"
    ]


async def _restore(homing: Homing, event: Delivery, by: str) -> Delivery:
    if event.failed_because is not None:
        return await homing.ops.restore(event.id, actor=by, reason=TABLE)
    # One that was cancelled has no reason; without `deleted_at` it is a dead letter.
    dead = replace(event, failed_because="rejected")
    change = transitions.restore(dead, now_ms=now_ms(homing))
    return await _saved(homing, change, "restore", by)


async def _saved(homing: Homing, change: Change, verb: str, by: str) -> Delivery:
    """Written with the record of who did what, as the verbs of operators are."""
    at_ms = now_ms(homing)
    key = f"{change.delivery.id}/{at_ms:015d}-{verb}"
    audit = Fact("audit", key, at_ms, {"verb": verb, "actor": by, "reason": TABLE})
    [is_saved] = await homing.store.save([replace(change, facts=(*change.facts, audit))])
    if not is_saved:
        raise NotAllowed(f"event {change.delivery.id} has changed in between")
    return replace(change.delivery, version=change.delivery.version + 1)
