"""In what one SQL database differs from another when it is read."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Dialect(Struct):
    """The statements of a database, and what the planner of a listing must know about it.

    Statements of the same name have the same parameters and columns in every dialect. `.sql` files
    have few of their own: those of indexes that one database must be told to use.
    """

    sql: Mapping[str, str]
    # So many deliveries to one address are read and sorted in a few milliseconds.
    few_to_one_address: int
    # Deliveries that have not ended are in a small table, which needs no index to be listed.
    has_open_apart: bool
