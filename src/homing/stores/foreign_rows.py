"""Adopts rows that other programs have written into the table of a RecordLayout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from homing.domain.delivery import Delivery, Fact, New
from homing.domain.errors import HomingError, NotAllowed, StoreError
from homing.engine.intake.admission import Admission
from homing.engine.intake.adopting import adopt
from homing.engine.route import Route
from homing.ports import Added, Alert, Clock, ForeignRow, Store, TakesRows
from homing.stores.layout import Record, RecordLayout, Stored

REFUSED = "refused_row"
"""The kind of the fact, and of the alert, of a row that was not adopted."""

MOST_ROWS = 256


class Adoption(Struct):
    """What rows of one table mean."""

    new: dict[str, New] = field(default_factory=dict)
    # Ids of rows that show what is stored afterwards.
    restored: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    # Rows whose key belongs to another delivery of the same request, with the id of that.
    replaced: dict[str, str] = field(default_factory=dict)


class RowAdopter:
    """Of one route and the table of its layout."""

    def __init__(
        self,
        homing: Any,
        route: Route,
        layout: RecordLayout,
        admission: Admission,
        clock: Clock,
        sound: Callable[[Alert], Awaitable[bool]],
    ) -> None:
        """`homing` is given to the layout's `follow`."""
        self._homing = homing
        self._store: Store = homing.store
        self._route = route
        self._layout = layout
        self._admission = admission
        self._clock = clock
        self._sound = sound

    async def take_rows(self) -> int:
        """A row with a new id becomes a delivery in the state that it names. A changed row changes
        its delivery, or is written again as the delivery says. What cannot be adopted stays as it
        is, with an alert and a fact that says why. Returns how many became deliveries."""
        store, table = self._store, self._layout.table
        if table is None or not isinstance(store, TakesRows):
            return 0
        number = 0
        while rows := await store.foreign_rows(table.name, MOST_ROWS):
            adoption = await self._judged(rows)
            number += await self._add(adoption)
            await self._record_refused(table.name, adoption)
            await store.settle_rows(table.name, rows, adoption.restored, adoption.replaced)
            if len(rows) < MOST_ROWS:
                break
        return number

    async def _judged(self, rows: Sequence[ForeignRow]) -> Adoption:
        adoption = Adoption()
        stored = await self._store.get_many([row.id for row in rows])
        for row, delivery in zip(rows, stored, strict=True):
            try:
                if delivery is not None:
                    adoption.restored.append(row.id)
                    await self._follow(row, delivery)
                elif row.data is not None:
                    adoption.new[row.id] = self._adopted(row.data)
            except StoreError:
                raise
            except HomingError as error:
                adoption.refused[row.id] = str(error)
            except (TypeError, ValueError, KeyError) as error:
                # A column holds a value of another kind.
                adoption.refused[row.id] = f"is not a record: {error}"
        return adoption

    async def _follow(self, row: ForeignRow, delivery: Delivery) -> None:
        content = await self._store.content(delivery.id)
        if delivery.route != self._route.name or content is None:
            raise NotAllowed(f"{delivery.id} is no delivery of route {self._route.name}")
        record = None if row.data is None else self._record(row.data)
        if self._layout.follow is None:
            raise NotAllowed("rows are not changed by other programs: it is written again")
        attempts = tuple(await self._store.attempts(delivery.id))
        if self._layout.record(Stored(delivery, content, attempts)) != record:
            by = msgspec.json.decode(row.mark).get("by", "")
            await self._layout.follow(self._homing, delivery, record, by)

    def _adopted(self, data: str) -> New:
        foreign = self._layout.parse(self._record(data))
        prepared = self._admission.prepare(self._route, foreign.request)
        return adopt(prepared, foreign.state)

    def _record(self, data: str) -> Record:
        """Without columns that the owner of the table has added."""
        given = msgspec.json.decode(data)
        return {name: given[name] for name in self._layout.fields if name in given}

    async def _add(self, adoption: Adoption) -> int:
        if not adoption.new:
            return 0
        answers = await self._store.add(list(adoption.new.values()))
        added = 0
        for (delivery_id, new), answer in zip(adoption.new.items(), answers, strict=True):
            if isinstance(answer, Added):
                added += 1
            if isinstance(answer, Added) or answer.delivery_id == delivery_id:
                adoption.restored.append(delivery_id)
            else:
                if answer.key is not None and answer.key.fingerprint == new.delivery.fingerprint:
                    adoption.replaced[delivery_id] = answer.delivery_id
                adoption.refused[delivery_id] = f"its key belongs to {answer.delivery_id}"
        return added

    async def _record_refused(self, table: str, adoption: Adoption) -> None:
        now_ms = self._clock.now_ms()
        facts = []
        for delivery_id, problem in adoption.refused.items():
            key = f"{table}/{delivery_id}"
            facts.append(Fact(REFUSED, key, now_ms, {"problem": problem}))
            text = f"a row of {table} that another program wrote is not adopted: {problem}"
            await self._sound(Alert(REFUSED, key, f"{text} ({delivery_id})", now_ms))
        if facts:
            await self._store.save([], facts)
