"""The application's own table, in the same SQLite file as the outbox: book, cancel, read."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from homing_systems.bookings.payloads import Booking

Kind: TypeAlias = Literal["confirmation", "cancellation"]
T = TypeVar("T")

BUSY_TIMEOUT_S = 5.0
LOOK_EVERY_S = 0.001
MAX_SHOWN = 200
# The source of a request that names none.
NO_SOURCE = ""
# A mail is owed if mail was on at the time of the booking or the cancellation.
TABLE = """
create table if not exists bookings (
    id text primary key,
    name text not null,
    email text not null,
    title text not null,
    start_ms integer not null,
    end_ms integer not null,
    created_at_ms integer not null,
    cancelled_at_ms integer,
    owes_confirmation integer not null,
    owes_cancellation integer not null default 0
) strict
"""
INDEX = "create index if not exists bookings_by_start on bookings (start_ms)"
COLUMNS = ", ".join(Booking.__struct_fields__)
OVERLAPPING = f"""
select {COLUMNS} from bookings where cancelled_at_ms is null and start_ms < ? and end_ms > ?
"""  # noqa: S608 - of constants alone
UPCOMING = f"""
select {COLUMNS} from bookings where cancelled_at_ms is null and end_ms > ?
order by start_ms, id limit ?
"""  # noqa: S608 - of constants alone
COUNT_UPCOMING = "select count(*) from bookings where cancelled_at_ms is null and end_ms > ?"
# A key stays when its delivery is removed: a mail without one was never handed over.
UNRECORDED = f"""
select kind, {COLUMNS} from (
    select 'confirmation' as kind, * from bookings where owes_confirmation
    union all
    select 'cancellation', * from bookings where owes_cancellation
) as owed
where not exists (
    select 1 from homing_keys where source = ? and key = owed.id || '/' || owed.kind
)
order by created_at_ms, kind desc
"""  # noqa: S608 - of constants alone


class Taken(Exception):
    """Another booking has this time."""


class Bookings:
    """Each call opens a connection of its own and may run in any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self) -> None:
        def create(connection: sqlite3.Connection) -> None:
            connection.execute(TABLE)
            connection.execute(INDEX)

        self._write(create)

    def book(self, booking: Booking, *, owes_mail: bool) -> None:
        def insert(connection: sqlite3.Connection) -> None:
            if connection.execute(OVERLAPPING, (booking.end_ms, booking.start_ms)).fetchone():
                raise Taken
            values = [getattr(booking, name) for name in Booking.__struct_fields__]
            connection.execute(
                f"insert into bookings ({COLUMNS}, owes_confirmation)"  # noqa: S608 - of constants alone
                f" values ({', '.join('?' for _ in values)}, ?)",
                (*values, owes_mail),
            )

        self._write(insert)

    def cancel(self, booking_id: str, at_ms: int, *, owes_mail: bool) -> bool:
        """False: it is unknown or cancelled already."""

        def update(connection: sqlite3.Connection) -> bool:
            done = connection.execute(
                "update bookings set cancelled_at_ms = ?, owes_cancellation = ?"
                " where id = ? and cancelled_at_ms is null",
                (at_ms, owes_mail, booking_id),
            )
            return done.rowcount == 1

        return self._write(update)

    def get(self, booking_id: str) -> Booking | None:
        query = f"select {COLUMNS} from bookings where id = ?"  # noqa: S608 - of constants alone
        with closing(self._connect()) as connection:
            row = connection.execute(query, (booking_id,)).fetchone()
        return None if row is None else _booking(row)

    def upcoming(self, now_ms: int) -> tuple[list[Booking], int]:
        """Those that have not ended and are not cancelled: the next ones, and how many in all."""
        with closing(self._connect()) as connection:
            rows = connection.execute(UPCOMING, (now_ms, MAX_SHOWN)).fetchall()
            [count] = connection.execute(COUNT_UPCOMING, (now_ms,)).fetchone()
        return [_booking(row) for row in rows], count

    def overlapping(self, start_ms: int, end_ms: int) -> list[Booking]:
        with closing(self._connect()) as connection:
            return [_booking(row) for row in connection.execute(OVERLAPPING, (end_ms, start_ms))]

    def unrecorded(self) -> list[tuple[Kind, Booking]]:
        """Mails that are owed and were never handed over, because the process ended before."""
        with closing(self._connect()) as connection:
            rows = connection.execute(UNRECORDED, (NO_SOURCE,)).fetchall()
        return [(kind, _booking(row)) for kind, *row in rows]

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        # Homing moves the write-ahead log itself (see its SQLite store).
        connection.execute("pragma wal_autocheckpoint = 0")
        connection.execute("pragma synchronous = full")
        return connection

    def _write(self, act: Callable[[sqlite3.Connection], T]) -> T:
        with closing(self._connect()) as connection:
            _begin(connection)
            try:
                done = act(connection)
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        return done


def _begin(connection: sqlite3.Connection) -> None:
    """SQLite itself would wait up to 100 ms between two looks, while Homing writes in between."""
    connection.execute("pragma busy_timeout = 0")
    until_s = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("begin immediate")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until_s:
                raise
            time.sleep(LOOK_EVERY_S)
        else:
            return


def _booking(row: tuple[object, ...] | list[object]) -> Booking:
    return Booking(**dict(zip(Booking.__struct_fields__, row, strict=True)))  # type: ignore[arg-type] # the columns of a strict table
