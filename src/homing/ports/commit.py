"""One durable transaction: what a store is asked to write, and its answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, cast, get_args

from msgspec import Struct

from homing.domain.delivery import Change, Fact, New
from homing.domain.shown import Projection
from homing.domain.writes import Write, write_of_change, write_of_new
from homing.ports.queries import PurgeRule
from homing.ports.records import Added, Claim, Claimed, Existing

PutAnswer: TypeAlias = Added | Existing | bool
"""Of an add: stored, or what stands in its place. Of a save: false if the claim was lost."""

Kind: TypeAlias = Literal["add", "save", "renew", "purge", "claim"]
"""The kind of a request; see `Put.kind`."""

ONE_WRITER: tuple[frozenset[Kind], ...] = (frozenset(get_args(Kind)),)
"""The `writers` of a store that executes requests of all kinds in one transaction."""


class Put(Struct, frozen=True, gc=False):
    """Writes of one caller, in order: adds (`over` is None) and saves. Its facts are written last,
    and in any case."""

    writes: Sequence[Write] = ()
    facts: Sequence[Fact] = ()

    @property
    def kind(self) -> Kind:
        """An add if all its writes are; any other put, also one of facts alone, is a save."""
        saves = [write for write in self.writes if write.over is not None]
        return "save" if saves or not self.writes else "add"


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


class Commits(Protocol):
    """Writes in batches. The calls below `commit` are single requests: batches of one.

    `projection` makes the records of layouts that belong to a write, for a store that keeps them.
    """

    projection: Projection | None = None

    async def commit(self, batch: Batch) -> Answers:
        """Write all of it durably, or raise an error for the whole batch."""

    async def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        """Store each one with its keys, children and facts, unless a key or its id is taken.

        A key that has expired by the new one's creation is free again. Children whose key or id
        is taken are left out and not counted. Facts of the call are written in any case.
        """
        projection = self.projection
        writes = [write_of_new(one, projection) for one in new]
        answers = await self.commit(Batch(puts=(Put(writes, facts),)))
        return cast("list[Added | Existing]", answers.puts[0])

    async def save(self, changes: Sequence[Change], facts: Sequence[Fact] = ()) -> list[bool]:
        """Write each change iff the stored version is the one read; raise it by one.

        False means that the claim was lost, and nothing of that change is written. All changes
        and facts of one call are one commit. A `waiting` delivery is due exactly while it has no
        open children; the store itself keeps that count. A replaced payload stays readable
        as the result `payload.<its number>`, which `drop_results` keeps.
        """
        projection = self.projection
        writes = [write_of_change(change, projection) for change in changes]
        answers = await self.commit(Batch(puts=(Put(writes, facts),)))
        return cast("list[bool]", answers.puts[0])

    async def claim(self, claim: Claim) -> list[Claimed]:
        """Due work, which is now held by the claiming worker."""
        return (await self.commit(Batch(claims=(claim,)))).claims[0]

    async def renew(
        self, holder: str, held: Sequence[tuple[str, int]], lease_until_ms: int
    ) -> Sequence[bool]:
        """Extend the leases of (id, version) pairs still held; the version stays."""
        renewal = Renewal(holder, held, lease_until_ms)
        return (await self.commit(Batch(renewals=(renewal,)))).renewals[0]

    async def purge(self, rule: PurgeRule) -> int:
        """Remove what the rule describes, up to its limit. Returns how many were removed."""
        return (await self.commit(Batch(purges=(rule,)))).purges[0]
