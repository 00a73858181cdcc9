"""What was judged, as rows of tables: pure, and made before a transaction begins.

A plan names rows by the ids of their deliveries. Everything in it is encoded, so that a value that
cannot be stored fails here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from homing.domain.delivery import Delivery, Fact, Key
from homing.domain.writes import Write
from homing.stores.codec import encode, encode_text
from homing.stores.judging import Effect, Judged
from homing.stores.sql.blocks import delivery_columns
from homing.stores.sql.columns import Row, column_change
from homing.stores.sql.ledger import (
    CARRIES_ATTEMPT,
    CARRIES_PAYLOAD,
    CARRIES_RESULTS,
    Implied,
    attempt_row,
    implied_attempt,
    implies_attempt,
)


class Changed(Struct, gc=False):
    """A stored row that becomes `after`, with the version of its effect, if it is still `before`.

    `fresh` is set if no other columns change; else all are written. `record` is None if it does not
    change. `attempts` are rows of the ledger; `done` is the holder and the start of the attempt
    that the record implies. `carries` replaces the bit of the attempt and is added to the others.
    """

    effect: Effect
    before: Delivery
    after: Delivery
    carries: int = 0
    done: Implied = Implied(None, None)
    fresh: Row | None = None
    record: str | None = None
    attempts: Sequence[Row] = ()


class Plan(Struct):
    """Execute it in this order; then the keys, terms, counts and facts of `judged`."""

    judged: Judged
    # Deliveries whose record, content, attempts and recipients are removed.
    removed: list[Delivery] = field(default_factory=list)
    # Rows of (address, id).
    recipients_gone: list[Row] = field(default_factory=list)
    new: list[Effect] = field(default_factory=list)
    # Of the new ones, in their order.
    records: list[str] = field(default_factory=list)
    payloads: list[bytes | None] = field(default_factory=list)
    # (id, name, data) of the new ones.
    results: list[Row] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)
    # Rows of which the counter of open children and the due time change, and nothing else.
    counted: list[Delivery] = field(default_factory=list)
    # (id, write): content that is put over what is stored, in this order; also that of `changed`.
    contents: list[tuple[str, Write]] = field(default_factory=list)
    # (address, id) of new and of changed ones.
    recipients: list[Row] = field(default_factory=list)
    # Of new ones; those of changed ones are there.
    attempts: list[Row] = field(default_factory=list)

    @property
    def put(self) -> list[Delivery]:
        """What is stored afterwards, of what it adds and changes."""
        new = [effect.after for effect in self.new if effect.after is not None]
        return new + [one.after for one in self.changed]


def plan_of(judged: Judged, implied: Mapping[str, Implied] | None = None) -> Plan:
    """`implied` has the attempts that stored records imply: a change puts them into the ledger."""
    plan = Plan(judged)
    for delivery_id, effect in judged.effects.items():
        before, after = effect.before, effect.after
        if before is None:
            if after is not None:
                plan.new.append(effect)
        elif after is None:
            _plan_removal(plan, before)
        elif effect.is_replaced:
            _plan_removal(plan, before)
            plan.new.append(effect)
        elif effect.writes:
            changed = Changed(effect, before, after)
            _plan_change(plan, changed, None if implied is None else implied.get(delivery_id))
        else:
            plan.counted.append(after)
    if plan.new:
        _plan_new(plan)
    return plan


def new_columns(new: Sequence[Effect]) -> dict[str, Sequence[Any]]:
    """The columns of new rows, with `open_children` and `carries`."""
    deliveries: list[Any] = [effect.after for effect in new]
    columns: dict[str, Sequence[Any]] = {**delivery_columns(deliveries)}
    columns["version"] = [effect.version for effect in new]
    columns["open_children"] = [delivery.open_children for delivery in deliveries]
    columns["carries"] = [_carried(effect.writes) for effect in new]
    return columns


def key_columns(keys: Sequence[Key]) -> dict[str, Sequence[Any]]:
    return {
        "source": [key.source for key in keys],
        "key": [key.key for key in keys],
        "delivery_id": [key.delivery_id for key in keys],
        "fingerprint": [key.fingerprint for key in keys],
        "expires_at_ms": [key.expires_at_ms for key in keys],
    }


def fact_rows(facts: Sequence[Fact]) -> list[Row]:
    """(kind, key, at_ms, value) of those that are put; the others are dropped."""
    return [
        (fact.kind, fact.key, fact.at_ms, encode(fact.value).decode())
        for fact in facts
        if fact.value is not None
    ]


def _plan_removal(plan: Plan, before: Delivery) -> None:
    plan.removed.append(before)
    plan.recipients_gone += _recipients(before)


def _plan_new(plan: Plan) -> None:
    for effect in plan.new:
        after, writes = effect.after, effect.writes
        if after is None:
            continue
        write = writes[0]
        plan.records.append(encode_text(after))
        plan.payloads.append(write.payload)
        if write.results:
            plan.results += [(after.id, name, data) for name, data in write.results.items()]
        if after.recipients:
            plan.recipients += _recipients(after)
        # Saved by the batch that adds it: the content is put over that of the add.
        for later in writes[1:]:
            plan.attempts += [attempt_row(after.route, one) for one in later.attempts]
            if _has_content(later):
                plan.contents.append((after.id, later))


def _plan_change(plan: Plan, changed: Changed, implied: Implied | None) -> None:
    before, after, writes = changed.before, changed.after, changed.effect.writes
    if implied is not None:
        attempt = implied_attempt(before, *implied)
        changed.attempts = [attempt_row(before.route, attempt)]
    for write in writes:
        if write.attempts:
            if write is writes[-1] and implies_attempt(write):
                [attempt] = write.attempts
                changed.done = Implied(attempt.holder, attempt.started_at_ms)
                changed.carries = CARRIES_ATTEMPT
            else:
                rows = [attempt_row(after.route, one) for one in write.attempts]
                changed.attempts = [*changed.attempts, *rows]
        if _has_content(write):
            plan.contents.append((after.id, write))
            changed.carries |= _carried([write])
    record_changes = True
    # Of one that was read, the counter of open children is written, too: by all columns.
    if not changed.effect.is_exact:
        changed.fresh, record_changes = column_change(before, after)
    if record_changes:
        changed.record = encode_text(after)
        gone, there = _recipients(before), _recipients(after)
        if gone != there:
            plan.recipients_gone += gone
            plan.recipients += there
    plan.changed.append(changed)


def _has_content(write: Write) -> bool:
    return bool(write.results) or write.payload is not None or write.drop_results_but is not None


def _carried(writes: Sequence[Write]) -> int:
    """A payload that replaces another one leaves that among the results."""
    carries = 0
    for write in writes:
        if write.payload:
            carries |= CARRIES_PAYLOAD
        if write.results or write.keep_payload_as is not None:
            carries |= CARRIES_RESULTS
    return carries


def _recipients(delivery: Delivery) -> list[Row]:
    return [(recipient.address, delivery.id) for recipient in delivery.recipients]
