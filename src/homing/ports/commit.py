"""One durable transaction: what a store is asked to write, and its answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from homing.domain.delivery import Fact
from homing.domain.writes import Write
from homing.ports.queries import PurgeRule
from homing.ports.records import Added, Claim, Claimed, Existing

PutAnswer: TypeAlias = Added | Existing | bool
"""Of an add: stored, or what stands in its place. Of a save: false if the claim was lost."""


class Put(Struct, frozen=True, gc=False):
    """Writes of one caller, in order: adds (`over` is None) and saves. Its facts are written last,
    and in any case."""

    writes: Sequence[Write] = ()
    facts: Sequence[Fact] = ()


class Renewal(Struct, frozen=True, gc=False):
    """Extend the leases of (id, version) pairs that the holder still holds; the version stays."""

    holder: str
    held: Sequence[tuple[str, int]]
    lease_until_ms: int


class Batch(Struct, frozen=True):
    """Requests of several callers, executed kind by kind in the order of these fields.

    Puts are executed in order of arrival: each sees the effects of those before it. A claim finds
    what the rest of the batch has made due.
    """

    puts: Sequence[Put] = ()
    renewals: Sequence[Renewal] = ()
    purges: Sequence[PurgeRule] = ()
    claims: Sequence[Claim] = ()


class Answers(Struct, frozen=True):
    """In the order of the batch. `purges` are numbers of removed records."""

    puts: Sequence[Sequence[PutAnswer]] = ()
    renewals: Sequence[Sequence[bool]] = ()
    purges: Sequence[int] = ()
    claims: Sequence[list[Claimed]] = ()
