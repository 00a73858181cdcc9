"""Ports: what the engine needs from outside. A capability is a Protocol, not a flag."""

from __future__ import annotations

from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from homing.domain.delivery import (
    Attempt,
    Change,
    Content,
    Delivery,
    Fact,
    FailedBecause,
    Key,
    New,
    Phase,
    Receipt,
    State,
)
from homing.domain.failure import Failure, Refusal
from homing.domain.shown import Projection

if TYPE_CHECKING:
    from pathlib import Path


class Added(Struct, frozen=True, gc=False):
    """Stored, durably; `receipt` as in `Claimed`, for what was stored already claimed."""

    delivery_id: str
    receipt: Receipt | None = None


class Existing(Struct, frozen=True, gc=False):
    """Not stored: this key, or (with no key) this id, is taken."""

    delivery_id: str
    key: Key | None = None


class Claim(Struct, frozen=True, gc=False, kw_only=True):
    """A worker asks for work: what is due in its lanes, by priority, then due time.

    Leases of `alive_holders` are left alone even when the wall clock says that they have ended.
    `limit_bytes` bounds the sum of the payloads; the first one is always given. Unless it is
    `durable`, a power cut may undo the claim.
    """

    worker: str
    now_ms: int
    lease_until_ms: int
    limit: int
    lanes: tuple[str, ...]
    alive_holders: frozenset[str] = frozenset()
    limit_bytes: int | None = None
    durable: bool = True


class Claimed(Struct, frozen=True, gc=False):
    """A delivery that is now held by the worker that asked, with its content.

    `receipt` is evidence, found in the same commit, that it was accepted before.
    """

    delivery: Delivery
    content: Content
    receipt: Receipt | None = None


class Facet(Struct, frozen=True, kw_only=True):
    """One combination that a label means; None is any.

    `retrying_children` asks whether some child of it waits to be tried again after a failure.
    `except_routes` leaves out the routes that have another word for it.
    """

    state: State
    route: str | None = None
    except_routes: tuple[str, ...] = ()
    stage: str | None = None
    attempted: bool | None = None
    failed_because: FailedBecause | None = None
    phase: Phase | None = None
    retrying_children: bool | None = None


class Query(Struct, frozen=True, kw_only=True):
    """Which deliveries; all conditions hold together. `facets` are alternatives.

    `top_only` leaves out children, so that a listing shows each request once. `notices_due` asks
    whether any notice of a delivery is still to be given.
    """

    route: str | None = None
    source: str | None = None
    key: str | None = None
    topic: str | None = None
    recipient: str | None = None
    error_class: str | None = None
    parent_id: str | None = None
    clone_of: str | None = None
    holder: str | None = None
    notices_due: bool | None = None
    facets: tuple[Facet, ...] | None = None
    top_only: bool = False
    created_from_ms: int | None = None
    created_before_ms: int | None = None
    updated_from_ms: int | None = None


class Cursor(Struct, frozen=True):
    """The last item seen; the listing continues after it.

    With `newer` it is the first item seen, and the page just above it is asked for.
    """

    created_at_ms: int
    delivery_id: str
    newer: bool = False


class Page(Struct, frozen=True):
    """Newest first: by creation time, then id, both descending, whichever way it was reached.

    `previous` leads to the newer ones; a page that is known to be the first one has none.
    """

    items: tuple[Delivery, ...]
    next: Cursor | None = None
    previous: Cursor | None = None


FactOrder: TypeAlias = Literal["key", "oldest", "newest"]


class FactCursor(Struct, frozen=True):
    """The last fact seen; the listing continues after it. By key, only `key` counts."""

    key: str
    at_ms: int = 0


GroupBy: TypeAlias = Literal[
    "route", "state", "failed_because", "error_class", "stage", "required", "lane", "source"
]
PurgeKind: TypeAlias = Literal["delivery", "payload", "attempts", "keys", "facts"]


class PurgeRule(Struct, frozen=True, kw_only=True):
    """What to remove: ended deliveries of these states, or old payloads, attempts, keys, facts.

    `delivery` and `payload` look at `ended_at_ms`, `attempts` at their own end, `keys` at their
    expiry, `facts` at their time. What has not ended is never purged, and a `failed` one (an
    open dead letter) only where `states` names it. A child stays as long as its parent's record.
    """

    what: PurgeKind
    before_ms: int
    route: str | None = None
    states: tuple[State, ...] = ()
    fact_kind: str | None = None
    limit: int = 1000


class Store(Protocol):
    """Keeps deliveries durably, in batches. It never decides; `transitions` and `writes` do."""

    async def open(self) -> None:
        """Connect, migrate, and check durability; refuse when it is weaker than the promise."""

    async def close(self) -> None:
        """Finish what was asked for and let go of files and connections."""

    async def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        """Store each one with its keys, children and facts, unless a key or its id is taken.

        A key that has expired by the new one's creation is free again. Children whose key or id
        is taken are left out and not counted. Facts of the call are written in any case.
        """

    async def claim(self, claim: Claim) -> list[Claimed]:
        """What is due, now held by the worker that asks."""

    async def renew(
        self, holder: str, held: Sequence[tuple[str, int]], lease_until_ms: int
    ) -> list[bool]:
        """Longer leases for (id, version) pairs still held; the version stays."""

    async def save(self, changes: Sequence[Change], facts: Sequence[Fact] = ()) -> list[bool]:
        """Write each change iff the stored version is the one read; raise it by one.

        False means that the claim was lost, and nothing of that change is written. All changes
        and facts of one call are one commit. A `waiting` delivery is due exactly while it has no
        open children; that count is the store's own. A payload that is replaced stays readable
        as the result `payload.<its number>`, which `drop_results` keeps.
        """

    async def get(self, delivery_id: str) -> Delivery | None:
        """One delivery."""

    async def get_many(self, delivery_ids: Sequence[str]) -> list[Delivery | None]:
        """In the order asked for."""

    async def content(self, delivery_id: str) -> Content | None:
        """Its payload and results; None where there is no such delivery."""

    async def find(self, source: str, key: str) -> Key | None:
        """The key's record, expired or not, as long as it is stored."""

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        """Newest first, from behind the cursor on, or with `newer` the page that ends above it."""

    async def count(self, query: Query, by: tuple[GroupBy, ...] = ()) -> dict[tuple[str, ...], int]:
        """How many match, by the values of `by`; with no `by`, under the empty tuple."""

    async def attempts(self, delivery_id: str) -> list[Attempt]:
        """The ended attempts of a delivery, by number."""

    async def facts(
        self,
        kind: str,
        prefix: str = "",
        limit: int = 1000,
        *,
        after: FactCursor | None = None,
        order: FactOrder = "key",
    ) -> list[Fact]:
        """Facts of a kind whose key starts with `prefix`, from behind `after` on.

        By key, or by (time, key) ascending (`oldest`) or descending (`newest`). A fact that is
        written again between two calls may be seen twice, or not at all, in time order.
        """

    async def purge(self, rule: PurgeRule) -> int:
        """Remove what the rule describes, up to its limit; how many were removed."""

    async def next_due_ms(self, lanes: Sequence[str]) -> int | None:
        """When the next delivery of these lanes is due; None if none is."""

    async def wait(self, timeout_s: float) -> None:
        """Return when something may have become due, or after the timeout."""


@runtime_checkable
class AddsInParts(Protocol):
    """A store that writes one part of a large add while the caller makes the next."""

    async def add_in_parts(self, parts: Iterable[Sequence[New]]) -> list[Added | Existing]:
        """As one `add` of all parts: all of it or, if making a part raises, nothing."""


@runtime_checkable
class BoundedReads(Protocol):
    """A store that can end a listing or a count which would read very many deliveries."""

    async def page_within(
        self, query: Query, cursor: Cursor | None, limit: int, look_at: int
    ) -> Page:
        """As `page`, but it looks at about `look_at` deliveries at most: a page that ends there has
        fewer items, perhaps none, and its cursor leads on."""

    async def count_up_to(
        self, query: Query, most: int, by: tuple[GroupBy, ...] = ()
    ) -> dict[tuple[str, ...], int]:
        """As `count`, but it may end when `most` were found."""


class Presence(Protocol):
    """What the processes of one host know of each other without the store: who still runs.

    The calls take microseconds and do not wait.
    """

    def announce(self, holder: str, boot: str) -> None:
        """Let others see that this process runs, until it ends in any way. May be repeated."""

    def look(self, boot: str) -> Mapping[str, bool]:
        """For each other holder of this boot: true while its process runs, false once it is dead.

        A holder that is not named must be judged by its heartbeats.
        """

    def forget(self, holder: str) -> None:
        """Remove a dead holder: it has nothing left that others would have to take over."""

    def withdraw(self, holder: str) -> None:
        """This holder ends, and holds nothing."""

    def abandon(self, holder: str) -> None:
        """This holder ends while it still holds something: others must see it as dead."""


@runtime_checkable
class SharedOnHost(Protocol):
    """A store whose processes on one host can prove each other's death."""

    @property
    def presence(self) -> Presence: ...


class Transaction(Protocol):
    """The caller's own open transaction. Homing writes into it and never commits it."""

    def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        """As `Store.add`, at once and in the caller's thread."""


@runtime_checkable
class TransactionalStore(Protocol):
    """A store that can write inside the caller's own transaction."""

    def within(self, connection: object) -> Transaction:
        """Check the connection's durability and wrap it; refuse what is not of this store."""


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
    """A store in whose database a handler can write, in one transaction with a fact."""

    def once(self, fact: Fact) -> AbstractAsyncContextManager[object | None]:
        """A connection in an open transaction that begins with writing this fact.

        It is committed at the end of the block and rolled back if that raises. None: the fact is
        stored already. Another transaction that has written it is waited for.
        """


@runtime_checkable
class FactLookup(Protocol):
    """A store that finds many facts by their keys in one read."""

    async def known_facts(self, kind: str, keys: Sequence[str]) -> Collection[str]:
        """Those of the keys under which a fact of this kind is stored."""


@runtime_checkable
class InFile(Protocol):
    """A store in a file, which `open` creates."""

    @property
    def path(self) -> Path: ...


@runtime_checkable
class JournalPath(Protocol):
    """A store that says where the emergency journal beside it lies; None: it has no such place."""

    @property
    def journal_path(self) -> Path | None:
        """The file."""


Verdict: TypeAlias = Literal["good", "warning", "bad"]


class Finding(Struct, frozen=True):
    """One line of a report on what could break the promise, and what to do about it."""

    check: str
    verdict: Verdict
    detail: str


@runtime_checkable
class Checked(Protocol):
    """A store or provider that can be examined: its files, its server, its credentials."""

    async def findings(self) -> list[Finding]:
        """What can be seen now, before `open` or after it. Only reads."""


@runtime_checkable
class Migrated(Protocol):
    """A store with a schema, which `open` brings up to date."""

    async def pending_migrations(self) -> list[str]:
        """Names of the migrations that the next `open` would apply. Only reads."""


@runtime_checkable
class TakesSqlFiles(Protocol):
    """A store that applies the SQL files of an assembly, after its own migrations."""

    def add_sql_files(self, assembly: str, package: str) -> None:
        """Apply the files of this package at `open`; called before it."""


@runtime_checkable
class Compacting(Protocol):
    """A store whose file keeps what was replaced until a person has it removed."""

    async def compact(self) -> tuple[int, int]:
        """Remove it; the size of the file in bytes before and after."""


class AcceptedLog(Protocol):
    """What a design has noted, outside the store, of what was accepted."""

    def receipt_of(self, delivery: Delivery) -> Receipt | None:
        """Evidence that it was accepted. Called in a thread of the store, under its lock."""


@runtime_checkable
class AsksLog(Protocol):
    """A store that looks for evidence in the same commit as a claim."""

    def ask(self, log: AcceptedLog) -> None:
        """Look up in this log what is claimed; called before `open`."""


class ForeignLine(Struct, frozen=True):
    """A line that another program has appended. Store `taken` with what was made of it."""

    data: bytes
    taken: Fact


@runtime_checkable
class TakesLines(Protocol):
    """A store in a file to which other programs may append."""

    async def foreign_lines(self) -> list[ForeignLine]:
        """Those that were not taken yet, oldest first."""


class Seen(Struct, frozen=True):
    """A record of a Shape as others find it in the store."""

    data: bytes
    names: tuple[str, ...] = ()
    gone_at_ms: int | None = None


@runtime_checkable
class WritesShapes(Protocol):
    """A store that writes a design's own records in the same commit as the engine's."""

    def show(self, projection: Projection) -> None:
        """Write these records from now on; called before `open`."""


@runtime_checkable
class Showing(WritesShapes, Protocol):
    """A store that also keeps such records under keys and names, and reads them back."""

    async def shown(self, key: str) -> Seen | None:
        """The record under this key."""

    async def shown_under(self, name: str) -> list[str]:
        """The keys of the records that are found under this index name, sorted."""


class Envelope(Struct, frozen=True, gc=False, kw_only=True):
    """What a provider is asked to accept: frozen bytes for these recipients."""

    delivery_id: str
    token: str
    recipients: tuple[str, ...]
    data: bytes
    sender: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


class Accepted(Struct, frozen=True, gc=False):
    """The provider has accepted it, except for the recipients in `refused`."""

    receipt: Receipt
    refused: dict[str, Refusal] = field(default_factory=dict)


class Ready(Protocol):
    """A prepared send: the next byte may send it."""

    async def commit(self) -> Accepted | Failure:
        """Send it. An answer or a broken connection is returned as a Failure, never raised."""

    async def abandon(self) -> None:
        """Give up the prepared send; it is certain that nothing was sent."""


class Provider(Protocol):
    """A mail or message service. For `token_window_s` it drops a repeated token (0: never)."""

    token_window_s: float

    async def prepare(self, envelope: Envelope) -> Ready | Failure:
        """Do all that can be done before the durable mark; nothing is sent yet."""

    async def close(self) -> None:
        """Let go of connections; called once, after the last send."""


@runtime_checkable
class OpenedProvider(Protocol):
    """A provider that has something to open before its first send."""

    async def open(self) -> None:
        """Called once by the engine. A failure is shown, and stops nothing."""


class GroupSend(Ready, Protocol):
    """A prepared send that needs no task of its own."""

    def start(self, told: Callable[[Accepted | Failure], None]) -> None:
        """As `commit`, but returns at once; `told` is called with the answer, once."""

    def withdraw(self) -> bool:
        """After `start`: the answer is no longer waited for. What has not been sent is not sent.

        Returns whether it may have been sent. If it was accepted for some of its recipients by
        then, `told` is called with that first.
        """


@runtime_checkable
class GroupProvider(Protocol):
    """A provider that takes many sends at once."""

    async def prepare_some(self, envelopes: Sequence[Envelope]) -> Sequence[GroupSend | Failure]:
        """As `prepare`, for as many of the first ones as there is room for: at least one."""


@runtime_checkable
class LimitedProvider(Protocol):
    """A provider with room for few sends at once. More would wait there, on their time limit."""

    most_at_once: int


@runtime_checkable
class StaysLocal(Protocol):
    """A provider that knows whether what it is given can leave this machine."""

    @property
    def stays_local(self) -> bool:
        """Whether nothing leaves this machine as it is configured; true for a fake on loopback."""


@runtime_checkable
class Described(Protocol):
    """A provider that can say in a few words what it is and where it sends, without secrets."""

    @property
    def description(self) -> str:
        """Such as `SMTP at mail.example.org:587`."""


@runtime_checkable
class Rehearsing(Protocol):
    """A provider for development: some addresses make it answer in a way of their own."""

    @property
    def test_addresses(self) -> Mapping[str, str]:
        """By address, what happens to a mail for it."""


class Found(Struct, frozen=True):
    """The provider has accepted it."""

    receipt: Receipt


class Absent(Struct, frozen=True):
    """Certainly not accepted: the provider's settle time is over and it has no such message."""


class Unknown(Struct, frozen=True):
    """No evidence either way; ask again after `ask_again_s`."""

    ask_again_s: float = 30.0


@runtime_checkable
class Lookup(Protocol):
    """A provider that can tell whether it accepted a token.

    `notification_id` is the provider's own name for it, where an earlier answer gave one.
    """

    async def lookup(
        self, token: str, notification_id: str | None = None
    ) -> Found | Absent | Unknown:
        """What the provider knows of this token."""


@runtime_checkable
class PermittedLookup(Lookup, Protocol):
    """A provider whose account may lack the permission to look; asked each time."""

    @property
    def may_look_up(self) -> bool:
        """Whether the permission is there, as far as is known."""


# Gives an alert of this kind, about this key, with this text.
SoundAlert: TypeAlias = Callable[[str, str, str], Awaitable[bool]]


@runtime_checkable
class SoundsAlerts(Protocol):
    """A provider that may have to tell a person what is about no single delivery."""

    def sound_alerts(self, sound: SoundAlert) -> None:
        """Called once by the engine, before the first send."""


class Done(Struct, frozen=True, gc=False):
    """A stage finished; `result` is kept, `receipt` is evidence of the last one."""

    result: bytes | None = None
    receipt: Receipt | None = None
    refused: dict[str, Refusal] = field(default_factory=dict)


class FanOut(Struct, frozen=True):
    """A stage became several deliveries; it is done when all of them are."""

    children: tuple[New, ...]
    result: bytes | None = None


Outcome: TypeAlias = Done | FanOut | Failure


class Work(Protocol):
    """What a step sees of the attempt it runs in."""

    @property
    def delivery(self) -> Delivery:
        """The delivery as it was claimed."""

    @property
    def content(self) -> Content:
        """Its payload and the results of finished stages."""

    @property
    def now_ms(self) -> int:
        """The time by the clock of the engine."""

    def child(  # noqa: PLR0913 - a child may differ from its parent in each of these
        self,
        *,
        payload: bytes,
        lane: str = "",
        plan: str = "",
        stage: str | None = None,
        topic: str | None = None,
        intent: str | None = None,
        recipients: tuple[str, ...] = (),
        required: bool = True,
        metadata: Mapping[str, str] | None = None,
    ) -> New:
        """A delivery of its own under this one, for a step that fans out.

        `lane` is the suffix of its lane under the route's name.
        """


class Step(Protocol):
    """The code of one stage. It returns expected failures and may raise unexpected ones."""

    def __call__(self, work: Work) -> Coroutine[Any, Any, Outcome]: ...


class LaneStep(Step, Protocol):
    """A step that calls other code in each lane, and looks it up once for a whole batch."""

    def for_lane(self, delivery: Delivery) -> Step:
        """The step for this delivery and all others of its lane."""


class Transitioned(Struct, frozen=True, gc=False):
    """What observers are told after it was stored (with a version one higher)."""

    name: str
    delivery: Delivery
    previous: Delivery | None
    ended: tuple[Attempt, ...]
    at_ms: int


@runtime_checkable
class Observer(Protocol):
    """Is told of every transition; may not fail the engine."""

    def observe(self, events: Sequence[Transitioned]) -> None:
        """Called after each commit, with all its transitions, on the event loop."""


@runtime_checkable
class ClaimObserver(Observer, Protocol):
    """An observer that is told of claims as well (`claim`), before the attempts begin."""

    observes_claims: Literal[True]


@runtime_checkable
class Notifier(Protocol):
    """Gives the notices of a transition (an alert, a log line). True once one is safely given."""

    notices: Collection[str]

    async def notify(self, notice: str, delivery: Delivery, attempts: Sequence[Attempt]) -> bool:
        """Idempotent: a notice may be asked for again after a crash."""


class Alert(Struct, frozen=True):
    """Something a person should know that is not about a single delivery."""

    kind: str
    key: str
    text: str
    at_ms: int


@runtime_checkable
class Alarm(Protocol):
    """Where alerts go. True once it is safely given; asked again otherwise."""

    async def sound(self, alert: Alert) -> bool:
        """Give the alert."""


class Journal(Protocol):
    """The emergency journal: outcomes of finished sends that the store refused."""

    damage: str | None
    """What the last `entries` found and could not read, and where it is kept; None: nothing."""

    async def append(self, changes: Sequence[Change]) -> None:
        """Durable when it returns, even on a full disk."""

    async def entries(self) -> list[Change]:
        """All that was appended since the last `clear` and can be read, oldest first.

        Damage of one record does not hide the others.
        """

    async def clear(self) -> None:
        """Remove what `entries` returned, and nothing that was added later."""


class Clock(Protocol):
    """`now_ms` is the wall clock, for due times. `steady_s` never jumps: for leases, timeouts."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 by the wall clock, which may be set back."""

    def steady_s(self) -> float:
        """Seconds by a clock that never jumps; only differences mean something."""

    @property
    def boot(self) -> str:
        """Steady times of one boot can be compared, also between processes."""


class Dice(Protocol):
    """Random numbers, as a port so that a run can be repeated."""

    def roll(self) -> float:
        """Uniform in [0, 1)."""

    def entropy(self, size: int) -> bytes:
        """This many random bytes."""


Guard: TypeAlias = Callable[[Any], None]
Handler: TypeAlias = Callable[[Any], Awaitable[Any]]
