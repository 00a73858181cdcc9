"""Several reads of the same state of the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("begin")
    try:
        yield
    finally:
        connection.execute("commit")
