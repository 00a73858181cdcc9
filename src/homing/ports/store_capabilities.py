"""Optional capabilities of stores. A capability is a Protocol, not a flag."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from homing.domain.delivery import Delivery, Fact, New, Receipt
from homing.domain.shown import Projection
from homing.ports.queries import Cursor, GroupBy, Page, Query
from homing.ports.records import Added, Existing

if TYPE_CHECKING:
    from pathlib import Path


@runtime_checkable
class AddsInParts(Protocol):
    """A store that writes one part of a large add while the caller prepares the next."""

    async def add_in_parts(self, parts: Iterable[Sequence[New]]) -> list[Added | Existing]:
        """As one `add` of all parts: all of it or, if preparing a part raises, nothing."""


@runtime_checkable
class BoundedReads(Protocol):
    """A store that can bound how many deliveries a listing or a count reads."""

    async def page_within(
        self, query: Query, cursor: Cursor | None, limit: int, look_at: int
    ) -> Page:
        """As `page`, but it reads about `look_at` deliveries at most: a page that ends there has
        fewer items, perhaps none, and a cursor to continue from."""

    async def count_up_to(
        self, query: Query, most: int, by: tuple[GroupBy, ...] = ()
    ) -> dict[tuple[str, ...], int]:
        """As `count`, but it may stop when `most` were found."""


class Presence(Protocol):
    """Shows which processes of this host are running, without the store.

    The calls take microseconds and do not wait.
    """

    def announce(self, holder: str, boot: str) -> None:
        """Show to others that this process runs, until it ends in any way. May be repeated."""

    def look(self, boot: str) -> Mapping[str, bool]:
        """For each other holder of this boot: true while its process runs, false once it is dead.

        A holder that is not named must be judged by its heartbeats.
        """

    def forget(self, holder: str) -> None:
        """Remove a dead holder: it holds no more work that others would have to take over."""

    def withdraw(self, holder: str) -> None:
        """This holder ends, and holds nothing."""

    def abandon(self, holder: str) -> None:
        """This holder ends while it still holds something: others must see it as dead."""


@runtime_checkable
class SharedOnHost(Protocol):
    """A store whose processes on one host can prove each other's death."""

    @property
    def presence(self) -> Presence:
        """Of the processes that share this store on this host."""


class Transaction(Protocol):
    """The caller's own open transaction. Homing writes into it and never commits it."""

    def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        """As `Store.add`, at once and in the caller's thread."""


@runtime_checkable
class TransactionalStore(Protocol):
    """A store that can write inside the caller's own transaction."""

    def within(self, connection: object) -> Transaction:
        """Check the connection's durability and wrap it; refuse one to another database."""


class AsyncTransaction(Protocol):
    """As `Transaction`, over a connection whose statements are awaited."""

    async def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        """As `Store.add`, inside the caller's transaction."""


@runtime_checkable
class AsyncTransactionalStore(Protocol):
    """A store that can also write inside a transaction of an async connection."""

    def within_async(self, connection: object) -> AsyncTransaction:
        """As `TransactionalStore.within`, for every connection of this store, sync or async."""


@runtime_checkable
class OnceStore(Protocol):
    """A store that lets a handler write to its database, in one transaction with a fact."""

    def once(self, fact: Fact) -> AbstractAsyncContextManager[object | None]:
        """A connection with an open transaction that has written this fact.

        It is committed at the end of the block and rolled back if that raises. None: the fact is
        already stored. If another open transaction has written it, the call waits for that one.
        """


@runtime_checkable
class FactLookup(Protocol):
    """A store that finds many facts by their keys in one read."""

    async def known_facts(self, kind: str, keys: Sequence[str]) -> Collection[str]:
        """Those keys for which a fact of this kind is stored."""


@runtime_checkable
class InFile(Protocol):
    """A store in a file, which `open` creates."""

    @property
    def path(self) -> Path:
        """The file."""


@runtime_checkable
class JournalPath(Protocol):
    """A store that knows the path of the emergency journal beside it; None: there is none."""

    @property
    def journal_path(self) -> Path | None:
        """The file."""


Verdict: TypeAlias = Literal["good", "warning", "bad"]


class Finding(Struct, frozen=True):
    """One line of `doctor`: what could break Homing's promises, and what to do about it."""

    check: str
    verdict: Verdict
    detail: str


@runtime_checkable
class Checked(Protocol):
    """A store or provider that can be checked: its files, its server, its credentials."""

    async def findings(self) -> list[Finding]:
        """What can be seen now, before `open` or after it. Only reads."""


@runtime_checkable
class Migrated(Protocol):
    """A store with a schema, which `open` brings up to date."""

    async def pending_migrations(self) -> list[str]:
        """Names of the migrations that the next `open` would apply. Only reads."""


@runtime_checkable
class TakesSqlFiles(Protocol):
    """A store that applies the SQL files of a plugin, after its own migrations."""

    def add_sql_files(self, plugin: str, package: str) -> None:
        """Apply the files of this package at `open`; called before it."""


@runtime_checkable
class ReadsViews(TakesSqlFiles, Protocol):
    """A store that also reads the views that such files make."""

    async def read_view(self, query: str, *given: object) -> list[dict[str, Any]]:
        """The rows of a query in the SQL of the files, by column. Only reads."""


@runtime_checkable
class Compacting(Protocol):
    """A store whose file keeps superseded records until a person removes them."""

    async def compact(self) -> tuple[int, int]:
        """Remove them; returns the size of the file in bytes before and after."""


class AcceptedLog(Protocol):
    """A log outside the store, in which a plugin records what was accepted."""

    def receipt_of(self, delivery: Delivery) -> Receipt | None:
        """Evidence that it was accepted. Called in a thread of the store, under its lock."""


@runtime_checkable
class AsksLog(Protocol):
    """A store that looks for evidence in the same commit as a claim."""

    def ask(self, log: AcceptedLog) -> None:
        """Look up claimed work in this log; called before `open`."""


class ForeignLine(Struct, frozen=True):
    """A line that another program has appended. Store the fact `taken` with its delivery."""

    data: bytes
    taken: Fact


@runtime_checkable
class TakesLines(Protocol):
    """A store in a file to which other programs may append."""

    async def foreign_lines(self) -> list[ForeignLine]:
        """Lines that were not adopted yet, oldest first."""


class ForeignRow(Struct, frozen=True):
    """A row that another program has inserted or changed in the table of a layout, as JSON; `data`
    of None: it has deleted the row. `mark` is the JSON text that the trigger left."""

    id: str
    mark: str
    data: str | None


@runtime_checkable
class TakesRows(Protocol):
    """A store with tables in which other programs may write."""

    async def foreign_rows(self, table: str, limit: int) -> list[ForeignRow]:
        """Rows of a layout's table that were not adopted yet."""

    async def settle_rows(
        self,
        table: str,
        rows: Sequence[ForeignRow],
        restored: Sequence[str] = (),
        replaced: Mapping[str, str] | None = None,
    ) -> None:
        """These rows are adopted: they are marked no longer, unless they have changed again. Those
        with the ids `restored` are written again as the stored records say. Each of `replaced` is
        removed, unless other tables refer to it, and the row of the other delivery is written."""


class Seen(Struct, frozen=True):
    """A record of a RecordLayout as other programs find it in the store."""

    data: bytes
    names: tuple[str, ...] = ()
    gone_at_ms: int | None = None


@runtime_checkable
class WritesLayouts(Protocol):
    """A store that writes a plugin's own records in the same commit as the engine's."""

    def show(self, projection: Projection) -> None:
        """Write these records from now on; called before `open`."""


@runtime_checkable
class Showing(WritesLayouts, Protocol):
    """A store that also keeps such records under keys and names, and reads them back."""

    async def shown(self, key: str) -> Seen | None:
        """The record under this key."""

    async def shown_under(self, name: str) -> list[str]:
        """The keys of the records that are found under this index name, sorted."""
