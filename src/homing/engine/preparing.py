"""From requests to new deliveries: checked, frozen and identified, many in one pass.

What is the same for all requests of one kind (lane, stage, term of the key, the beginning of the
fingerprint) is found once a batch, and the ids of a batch are made together.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from homing.domain import identity, transitions
from homing.domain.delivery import (
    FIRST_PRIORITY,
    LAST_PRIORITY,
    Delivery,
    Key,
    New,
    Recipient,
)
from homing.domain.errors import InvalidRequest
from homing.domain.message import encode_message
from homing.domain.redaction import redact
from homing.engine.admitted import Admitted
from homing.engine.process import Process
from homing.engine.request import Request
from homing.engine.route import Route

MAX_KEY_CHARS = 512
MAX_METADATA_CHARS = 8192


class Place(Struct, frozen=True, gc=False):
    """Where deliveries of one kind begin."""

    lane: str
    stage: str
    key_term_s: float | None
    frame: bytes


def prepare(process: Process, requests: Sequence[tuple[Route, Request]]) -> list[New]:
    """Pure but for the clock and the ids. Raises for the first request that is refused."""
    now_ms = process.clock.now_ms()
    places: dict[tuple[str, str, str, int], Place] = {}
    prepared = []
    for (route, request), new_id in zip(requests, process.new_ids(len(requests)), strict=True):
        admitted = route.admit(request.message)
        _check(route, request, now_ms)
        kind = (route.name, admitted.lane, admitted.plan, request.generation)
        if kind in places:
            place = places[kind]
        else:
            place = places[kind] = _place(route, admitted, request.generation)
        prepared.append(_new(place, route, request, admitted, new_id, now_ms))
    return prepared


def _place(route: Route, admitted: Admitted, generation: int) -> Place:
    if admitted.plan and admitted.plan not in route.plans:
        raise LookupError(f"route {route.name!r} has no plan {admitted.plan!r}")
    plan = route.plan_for(admitted)
    return Place(
        lane=route.lane(admitted.lane, generation),
        stage=plan.first_stage.name,
        key_term_s=plan.retention.key_s,
        frame=identity.request_frame(route.name),
    )


def _new(
    place: Place, route: Route, request: Request, admitted: Admitted, new_id: str, now_ms: int
) -> New:
    try:
        payload = encode_message(admitted.message)
    except (TypeError, OverflowError, UnicodeEncodeError) as error:
        raise InvalidRequest("data", f"cannot be stored: {redact(str(error))}") from error
    not_before_ms, expires_at_ms = request.not_before_ms, request.expires_at_ms
    frame = place.frame
    if not_before_ms is not None or expires_at_ms is not None:
        frame = identity.request_frame(route.name, not_before_ms, expires_at_ms)
    delivery = Delivery(
        id=request.delivery_id or new_id,
        route=route.name,
        lane=place.lane,
        plan=admitted.plan,
        stage=place.stage,
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
        due_at_ms=now_ms if not_before_ms is None or not_before_ms < now_ms else not_before_ms,
        expires_at_ms=expires_at_ms,
        source=request.source,
        key=request.key,
        fingerprint=identity.request_fingerprint(frame, payload),
        intent=admitted.intent,
        topic=admitted.topic,
        priority=request.priority,
        generation=request.generation,
        recipients=tuple([Recipient(address) for address in admitted.recipients])
        if admitted.recipients
        else (),
        metadata={**admitted.metadata, **request.metadata},
        key_term_s=place.key_term_s,
    )
    if (reason := admitted.suppressed_because) is not None:
        delivery = transitions.suppress_at_intake(delivery, reason, now_ms=now_ms).delivery
    keys: tuple[Key, ...] = ()
    if delivery.key is not None:
        keys = (Key(delivery.source, delivery.key, delivery.id, delivery.fingerprint),)
    if delivery.intent is not None:
        name = identity.intent_key(route.name, delivery.intent)
        keys += (Key(identity.INTENT_SOURCE, name, delivery.id, delivery.fingerprint),)
    return New(delivery, payload=payload, keys=keys, facts=request.facts)


def _check(route: Route, request: Request, now_ms: int) -> None:
    if request.key is None:
        if route.needs_key:
            raise InvalidRequest("key", "is required")
    elif not 0 < len(request.key) <= MAX_KEY_CHARS:
        raise InvalidRequest("key", f"must have 1 to {MAX_KEY_CHARS} characters")
    if request.source == identity.INTENT_SOURCE:
        raise InvalidRequest("source", "is reserved")
    if not FIRST_PRIORITY <= request.priority <= LAST_PRIORITY:
        raise InvalidRequest("priority", f"must be {FIRST_PRIORITY} to {LAST_PRIORITY}")
    if request.expires_at_ms is not None and request.expires_at_ms <= now_ms:
        raise InvalidRequest("expires_at_ms", "is in the past")
    metadata = request.metadata
    if metadata and sum(len(k) + len(v) for k, v in metadata.items()) > MAX_METADATA_CHARS:
        raise InvalidRequest("metadata", f"is longer than {MAX_METADATA_CHARS} characters")
