"""Saves that read first: of deliveries that this process has not claimed, and of families.

What is stored is read and locked, judged, and written, change by change in the order of the call.
Plain changes next to each other are made together; one that adds children, changes the content or
removes the record is made alone, between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from homing.domain.delivery import Delivery
from homing.domain.writes import Count, Write
from homing.stores.sql.columns import FRESH, PLACES, Row, delivery_of
from homing.stores.sql.ledger import implied_attempt
from homing.stores.sql.postgres.adding import NewEntry, NewRows, note_taken
from homing.stores.sql.postgres.arrays import Array
from homing.stores.sql.postgres.changes import ChangeEntry, SaveRequest, addresses
from homing.stores.sql.postgres.connection import Session
from homing.stores.sql.postgres.faults import Collision
from homing.stores.sql.postgres.rows import (
    ATTEMPT_COLUMNS,
    CARRIES_ATTEMPT,
    CARRIES_PAYLOAD,
    CARRIES_RESULTS,
    NAMES,
    PARTS,
    Facts,
    arrays,
    attempt_row,
    delivery_row,
    has_ended,
    row_source,
)
from homing.stores.sql.postgres.settling import settle_statement
from homing.stores.sql.postgres.statement import bind
from homing.stores.sql.statements import load

_SQL = load(__package__, "save.sql", PARTS)
_VERSION = FRESH.index("version")
_DUE = PLACES["due_at_ms"]
_ROW_VERSION = PLACES["version"]
# A parent moves to another table when it ends or is opened again, each time once.
_MOST_LOOKS = 8


class Stored(Struct):
    """What a change is made over."""

    delivery: Delivery
    carries: int
    payload_bytes: int


async def save_exactly(session: Session, request: SaveRequest) -> list[bool]:
    saving = _Saving(session)
    run: dict[str, ChangeEntry] = {}
    for entry in request.entries:
        delivery_id = entry.write.delivery.id
        is_plain = entry.write.is_plain
        if not is_plain or delivery_id in run:
            await saving.save_run(list(run.values()))
            run = {}
        if is_plain:
            run[delivery_id] = entry
        else:
            await saving.save_alone(entry)
    await saving.save_run(list(run.values()))
    saving.facts.note(request.facts)
    await saving.finish()
    return [entry.kept for entry in request.entries]


class _Saving:
    """The changes of one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.facts = Facts()
        self.wakes = False

    async def save_run(self, run: Sequence[ChangeEntry]) -> None:
        stored = await self._judge(run)
        kept = [entry for entry in run if entry.kept]
        await self._write(kept, stored)
        await self._write_results(kept)
        # After the rows: a parent among them keeps its count, which is changed here.
        await self._conclude([entry.write for entry in kept])

    async def save_alone(self, entry: ChangeEntry) -> None:
        stored = await self._judge([entry])
        if not entry.kept:
            return
        write, delivery_id = entry.write, entry.write.delivery.id
        before = stored[delivery_id]
        opened = await self._add_children(entry.children) if entry.children else 0
        if write.removes:
            await self._take_out([delivery_id])
            await self._run("remove_records", ids=Array("text", [delivery_id]))
            await self._run("remove_results", ids=Array("text", [delivery_id]))
            await self._run("forget_attempts", id=delivery_id)
            await self._conclude([write])
            return
        if write.drop_results_but is not None:
            await self._run("drop_results", id=delivery_id, kept=write.drop_results_but)
        if write.payload is not None:
            if write.keep_payload_as is not None:
                await self._run("keep_payload", id=delivery_id, name=write.keep_payload_as)
            await self._run("put_payload", id=delivery_id, payload=write.payload or None)
            before.carries |= CARRIES_PAYLOAD | CARRIES_RESULTS
            before.payload_bytes = len(write.payload)
        await self._write_results([entry])
        await self._write([entry], stored, opened=opened)
        await self._conclude([write])

    async def finish(self) -> None:
        statement = settle_statement((), self.facts, wakes=False)
        if statement is not None:
            await self._session.run(statement)
        if self.wakes:
            await self._run("notify")

    async def _run(self, name: str, /, **values: Any) -> list[Row]:
        return await self._session.run(bind(_SQL[name], values))

    async def _judge(self, run: Sequence[ChangeEntry]) -> dict[str, Stored]:
        """Read and lock what is stored: whether the claim was lost, and what the change is over."""
        if not run:
            return {}
        entries = {entry.write.delivery.id: entry for entry in run}
        ids = Array("text", sorted(entries))
        rows = await self._run("stored_open", ids=ids)
        rows += await self._run("stored_ended", ids=ids)
        stored: dict[str, Stored] = {}
        implied: list[Row] = []
        gone: list[Row] = []
        for carries, done_by, done_since_ms, payload_bytes, record, *fresh in rows:
            delivery = delivery_of(record, fresh)
            entry = entries[delivery.id]
            write = entry.write
            if fresh[_VERSION] != write.over:
                continue
            entry.kept = True
            stored[delivery.id] = Stored(delivery, carries, payload_bytes)
            if carries & CARRIES_ATTEMPT and not write.removes:
                attempt = implied_attempt(delivery, done_by, done_since_ms)
                implied.append(attempt_row(delivery.route, attempt))
            if write.removes or addresses(delivery) != addresses(write.delivery):
                gone += [(address, delivery.id) for address in addresses(delivery)]
        if implied:
            await self._run("put_attempts", **arrays("attempt", ATTEMPT_COLUMNS, implied))
        if gone:
            await self._run("drop_recipients", **arrays("recipient", ("address", "id"), gone))
        return stored

    async def _take_out(self, ids: Sequence[str]) -> None:
        await self._run("take_out_open", ids=Array("text", ids))
        await self._run("take_out_ended", ids=Array("text", ids))

    async def _write(
        self, run: Sequence[ChangeEntry], stored: dict[str, Stored], *, opened: int = 0
    ) -> None:
        """Rows are put anew, in the table of their state; what was read is locked until then."""
        if not run:
            return
        await self._take_out([entry.write.delivery.id for entry in run])
        tables: dict[str, list[Row]] = {"open": [], "ended": []}
        for entry in run:
            row = _row(entry, stored[entry.write.delivery.id], opened)
            tables["ended" if has_ended(entry.write.delivery.state) else "open"].append(row)
        for table, rows in tables.items():
            if rows:
                source, values = row_source(table, NAMES, rows)
                template = _SQL[f"put_{table}"].replace(f":{table}_rows:", source)
                await self._session.run(bind(template, values))
        records = [(e.write.delivery.id, e.record) for e in run if e.record is not None]
        if records:
            await self._run("put_records", **arrays("record", ("id", "record"), records))
        attempts = [row for entry in run for row in entry.attempts]
        if attempts:
            await self._run("put_attempts", **arrays("attempt", ATTEMPT_COLUMNS, attempts))
        recipients = [
            (address, entry.write.delivery.id)
            for entry in run
            for address in addresses(entry.write.delivery)
            if entry.record is not None
        ]
        if recipients:
            await self._run("put_recipients", **arrays("recipient", ("address", "id"), recipients))

    async def _write_results(self, run: Sequence[ChangeEntry]) -> None:
        results = [
            (entry.write.delivery.id, name, data)
            for entry in run
            for name, data in entry.write.results.items()
        ]
        if results:
            await self._run("put_results", **arrays("result", ("id", "name", "data"), results))

    async def _add_children(self, children: Sequence[NewEntry]) -> int:
        """What those that are not taken add to the counter."""
        taken_ids: set[str] = set()
        taken_keys: dict[tuple[str, str], Any] = {}
        while True:
            rows = NewRows(taken_ids, taken_keys)
            opened = rows.add_children(children)
            statement = rows.statement(looks_at_ids=True)
            found = [] if statement is None else await self._session.run(statement)
            if not note_taken(found, taken_ids, taken_keys):
                self.wakes = self.wakes or rows.wakes
                return opened

    async def _conclude(self, writes: Sequence[Write]) -> None:
        """Their effect on others: parents, keys, waiting workers, facts."""
        terms: list[Row] = []
        for write in writes:
            if write.count is not None:
                await self._tell_parent(write.count)
            terms += [
                (key.source, key.key, key.delivery_id, key.expires_at_ms) for key in write.terms
            ]
            self.wakes = self.wakes or write.wakes
            if write.facts:
                self.facts.note(write.facts)
        if terms:
            columns = ("source", "key", "delivery_id", "expires_at_ms")
            await self._run("put_terms", **arrays("term", columns, terms))

    async def _tell_parent(self, count: Count) -> None:
        """A parent that moves to the other table meanwhile is found there by the next look."""
        values = {"id": count.parent_id, "delta": count.delta}
        for _ in range(_MOST_LOOKS):
            if await self._run("tell_open_parent", **values, at_ms=count.at_ms):
                return
            if await self._run("tell_ended_parent", **values):
                return
            if not await self._run("is_there", id=count.parent_id):
                return
        raise Collision(f"the parent {count.parent_id} is being moved")


def _row(entry: ChangeEntry, before: Stored, opened: int) -> Row:
    """A waiting delivery is due exactly while it has no open children."""
    write = entry.write
    row = list(entry.row or delivery_row(write.delivery))
    open_children = before.delivery.open_children + opened
    if write.due_at_zero_ms is not None:
        row[_DUE] = None if open_children else write.due_at_zero_ms
    row[_ROW_VERSION] = write.delivery.version + 1
    carries = (before.carries & ~CARRIES_ATTEMPT) | entry.carries
    is_stale = 0 if entry.record is not None else 1
    return (*row, open_children, carries, before.payload_bytes, is_stale, *entry.done)
