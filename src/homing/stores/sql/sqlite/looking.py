"""What a batch will write: assumed from what this process holds, or by reading what is stored."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from homing.domain.delivery import Delivery, Key
from homing.ports import Put
from homing.stores.judging import Judged, Known, judge
from homing.stores.sql.held import HeldRecords
from homing.stores.sql.knowledge import Knowledge
from homing.stores.sql.ledger import CARRIES_ATTEMPT, Implied
from homing.stores.sql.planning import plan_of
from homing.stores.sql.sqlite.executing import Steps, steps_of
from homing.stores.sql.sqlite.rows import PARTS
from homing.stores.sql.sqlite.session import Session
from homing.stores.sql.statements import Bulk, load

_ADD = load(__package__, "add.sql", PARTS)
_TAKEN_KEYS = Bulk(_ADD["taken_keys"], widest=256)
_TAKEN_IDS = Bulk(_ADD["taken_ids"], widest=256)
_STORED = Bulk(load(__package__, "save.sql", PARTS)["stored"], widest=256)


class Assumed(Struct):
    """What is assumed without reading. `steps` is None if records have to be read first.

    `held` are the records that the writes change, of those that this process holds, and `rows` the
    numbers of their rows.
    """

    steps: Steps | None = None
    held: dict[str, Delivery] = {}
    rows: dict[str, int] = {}
    # Whatever is not known is taken to be free.
    free: bool = True


NOTHING = Assumed(free=False)
"""Everything is read."""


def assume(puts: Sequence[Put], held: HeldRecords, *, looks_for_keys: bool) -> Assumed:
    """Pure: made in the event loop, while the writer is at work on other batches."""
    judged = judge(puts, Known(held=held.records, assumes_free=True))
    if judged.is_complete and not (looks_for_keys and judged.keys):
        return Assumed(steps_of(plan_of(judged), held.rows, assumes_free=True))
    known = [one for one, effect in judged.effects.items() if not effect.is_exact]
    return Assumed(
        None,
        {one: held.records[one] for one in known},
        {one: held.rows[one] for one in known},
        free=not looks_for_keys,
    )


def look(session: Session, puts: Sequence[Put], assumed: Assumed) -> Steps:
    """Reads what the judge lacks, until nothing is missing."""
    knowledge = Knowledge(assumed.held, assumes_free=assumed.free)
    rows = {**assumed.rows}
    judged = knowledge.judge(puts)
    while not judged.is_complete:
        _look_up(session, judged, knowledge, rows)
        judged = knowledge.judge(puts)
    return steps_of(plan_of(judged, knowledge.implied), rows, assumes_free=assumed.free)


def _look_up(session: Session, judged: Judged, knowledge: Knowledge, rows: dict[str, int]) -> None:
    # Whether ids and keys are taken may be asked on a caller's connection, whose text factory and
    # converters are not ours. Records are read on our own connection only: an add needs none.
    for (delivery_id,) in session.ask_about(_TAKEN_IDS, [(one,) for one in judged.missing_ids]):
        knowledge.note_taken(delivery_id.decode())
    for *texts, expires_at_ms in session.ask_about(_TAKEN_KEYS, list(judged.missing_keys)):
        source, key, delivery_id, fingerprint = [text.decode() for text in texts]
        knowledge.note_key(Key(source, key, delivery_id, fingerprint, expires_at_ms))
    for seq, carries, done_by, done_since_ms, record, *fresh in session.ask_about(
        _STORED, [(one,) for one in judged.missing_records]
    ):
        implied = Implied(done_by, done_since_ms) if carries & CARRIES_ATTEMPT else None
        delivery = knowledge.note_record(record, fresh, implied)
        rows[delivery.id] = seq
