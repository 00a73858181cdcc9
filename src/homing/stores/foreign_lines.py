"""Adopts lines that other programs have appended to a file of records, by their RecordLayout."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec

from homing.domain.delivery import New
from homing.domain.errors import InvalidRequest
from homing.engine.intake.admission import Admission
from homing.engine.intake.adopting import Foreign, adopt
from homing.engine.route import Route
from homing.ports import Added, Alert, Clock, Store, TakesLines
from homing.stores.layout import Record, RecordLayout

log = logging.getLogger("homing.stores")

MALFORMED = "malformed_line"

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


async def take_lines(
    store: Store,
    route: Route,
    layout: RecordLayout,
    admission: Admission,
    clock: Clock,
    sound: Callable[[Alert], Awaitable[bool]],
) -> int:
    """Store their requests, in the state that they name; returns how many became deliveries.

    Of several lines with one id the last one counts. An unreadable line raises an alert.
    """
    lines = await store.foreign_lines() if isinstance(store, TakesLines) else []
    if not lines:
        return 0
    found: dict[str | None, New] = {}
    for line in lines:
        try:
            foreign = read_line(line.data, layout)
            new = adopt(admission.prepare(route, foreign.request), foreign.state)
        except InvalidRequest as error:
            end = (line.taken.value or {}).get("end")
            text = f"a line of another program cannot be read: {error} (it ends at byte {end})"
            await sound(Alert(MALFORMED, str(line.taken.value), text, clock.now_ms()))
            continue
        found[new.delivery.id] = new
    answers = await store.add(list(found.values()), [lines[-1].taken])
    added = sum(isinstance(answer, Added) for answer in answers)
    if added < len(answers):
        log.warning("lines_known number=%d: these records exist already", len(answers) - added)
    return added


def read_line(data: bytes, layout: RecordLayout) -> Foreign:
    """Fields that the RecordLayout keeps as they are stay bytes."""
    try:
        given = _fields.decode(data)
        record: Record = {
            name: value if name in layout.raw else msgspec.json.decode(value)
            for name, value in given.items()
        }
        return layout.parse(record)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise InvalidRequest("line", f"is not a record: {error}") from None
