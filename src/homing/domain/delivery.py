"""The durable record of one intent, and the small values it is made of.

Everything here is a frozen value. A delivery is changed only by `transitions`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from homing.domain.failure import Failure

State: TypeAlias = Literal[
    "pending", "in_flight", "waiting", "delivered", "suppressed", "failed", "dismissed"
]
FailedBecause: TypeAlias = Literal["rejected", "exhausted", "uncertain", "expired", "poison"]
RecipientOutcome: TypeAlias = Literal["open", "accepted", "refused", "maybe"]
Phase: TypeAlias = Literal["inline", "worker"]
AttemptStatus: TypeAlias = Literal[
    "scheduled",
    "running",
    "done",
    "suppressed",
    "rejected",
    "failed",
    "timed_out",
    "interrupted",
    "route_fault",
]
# When a second acceptance could happen. W1: the attempt ended between its mark and its outcome.
# W3: its worker was paused beyond the lease, after the last check of the lease and before the send.
DoubtWindow: TypeAlias = Literal["W1", "W3"]
FactValue: TypeAlias = dict[str, str | int | float | bool | None]

# In which states a delivery has ended, and in which it may be claimed.
TERMINAL_STATES: frozenset[State] = frozenset({"delivered", "suppressed", "failed", "dismissed"})
CLAIMABLE_STATES: frozenset[State] = frozenset({"pending", "in_flight", "waiting"})

FIRST_PRIORITY = 1
DEFAULT_PRIORITY = 2
LAST_PRIORITY = 4


class Recipient(Struct, frozen=True, gc=False, omit_defaults=True):
    """One address of the envelope with an outcome of its own."""

    address: str
    outcome: RecipientOutcome = "open"
    code: str | None = None
    detail: str | None = None


class Receipt(Struct, frozen=True, gc=False, omit_defaults=True):
    """The evidence of acceptance: from the provider, a lookup, or an operator."""

    notification_id: str = ""
    accepted_at_ms: int | None = None
    evidence: Literal["provider", "lookup", "operator", "late"] = "provider"
    detail: str | None = None


class Attempt(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """One call of a stage. Kept in a ledger of its own once it has ended."""

    delivery_id: str
    number: int
    stage: str
    status: AttemptStatus
    cycle: int = 1
    phase: Phase = "worker"
    counted: bool = True
    scheduled_for_ms: int | None = None
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    holder: str | None = None
    error_class: str | None = None
    code: str | None = None
    detail: str | None = None
    notification_id: str | None = None
    maybe_sent: bool = False
    window: DoubtWindow | None = None


class Cycle(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A finished round of attempts. The shape may only gain fields."""

    number: int
    attempts: int
    stage: str
    failed_because: FailedBecause | None = None
    last_error: str | None = None
    error_class: str | None = None
    code: str | None = None
    first_failed_at_ms: int | None = None
    failed_at_ms: int | None = None
    generation: int = 0
    replayed_at_ms: int
    replayed_by: str
    reason: str


class Delivery(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """One message to one envelope, one event, or one job, with its current state.

    A store writes a change only over the `version` that was read, and raises it by one.
    `due_at_ms` is the time of the next attempt while pending and the end of the lease while in
    flight, so that a claim is one range read. `key_term_s` is how long its key is kept after it
    has ended; None: for ever. `plan` names one of its route's further plans.
    `interruptions` counts the deaths of its holders in a row that it may have caused, `crashes`
    those while it was tried alone.
    """

    id: str
    route: str
    queue: str
    stage: str
    created_at_ms: int
    updated_at_ms: int
    source: str = ""
    key: str | None = None
    fingerprint: str = ""
    intent: str | None = None
    topic: str | None = None
    priority: int = DEFAULT_PRIORITY
    generation: int = 0
    plan: str = ""
    key_term_s: float | None = None

    state: State = "pending"
    failed_because: FailedBecause | None = None
    due_at_ms: int | None = None
    expires_at_ms: int | None = None
    ended_at_ms: int | None = None
    resume_at_ms: int | None = None

    version: int = 1
    holder: str | None = None
    unsettled_claims: int = 0
    claimed_at_ms: int | None = None
    interruption_noted: bool = False
    interruptions: int = 0
    tried_alone: bool = False
    crashes: int = 0
    phase: Phase = "worker"
    committing: bool = False
    committed_at_ms: int | None = None

    cycle: int = 1
    attempts_ended: int = 0
    attempts_spent: int = 0
    max_attempts: int | None = None
    recipients: tuple[Recipient, ...] = ()
    receipt: Receipt | None = None
    failure: Failure | None = None
    first_failed_at_ms: int | None = None
    last_failed_at_ms: int | None = None
    maybe_sent_at_ms: int | None = None
    doubt_waived: bool = False
    maybe_duplicate: bool = False
    # An earlier payload of it may have been accepted: evidence on this one does not settle that.
    earlier_maybe_sent: bool = False
    failure_history: tuple[Cycle, ...] = ()

    parent_id: str | None = None
    # Which payload of its parent it was made for; only children of the current one count.
    parent_payload_no: int = 1
    required: bool = True
    fanned_out: bool = False
    open_children: int = 0
    # For labels: how many children wait to be tried again. Operations count them when it shows a
    # waiting parent; it is never stored.
    retrying_children: int = 0
    clone_of: str | None = None
    payload_no: int = 1
    restart_at: str | None = None
    notices_due: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def is_terminal(self) -> bool:
        """It has ended: delivered, suppressed, failed or dismissed."""
        return self.state in TERMINAL_STATES

    @property
    def maybe_sent(self) -> bool:
        """An attempt with the current payload may have been accepted; there is no evidence yet."""
        return self.maybe_sent_at_ms is not None

    @property
    def possibly_sent(self) -> bool:
        """As `maybe_sent`, for any payload it has had: it must not be reported as "not sent"."""
        return self.maybe_sent_at_ms is not None or self.earlier_maybe_sent

    @property
    def open_addresses(self) -> tuple[str, ...]:
        """The recipients that still have to be sent to: the open ones and those in doubt."""
        return tuple([r.address for r in self.recipients if r.outcome in ("open", "maybe")])


# Names of results beside those of the stages: the bytes that every attempt sends, and those that
# the original of a clone has sent.
FROZEN = "frozen"
FROZEN_ORIGINAL = "frozen_original"


class Content(Struct, frozen=True, gc=False):
    """What a delivery carries: the frozen payload and the kept results of finished stages."""

    payload: bytes = b""
    results: dict[str, bytes] = field(default_factory=dict)


class Key(Struct, frozen=True, gc=False):
    """A taken name: (source, key) belongs to one delivery until it expires."""

    source: str
    key: str
    delivery_id: str
    fingerprint: str = ""
    expires_at_ms: int | None = None


class Fact(Struct, frozen=True, gc=False):
    """A small durable record besides deliveries. Writing (kind, key) again replaces it.

    A value of None removes the fact.
    """

    kind: str
    key: str
    at_ms: int
    value: FactValue | None = field(default_factory=dict)


class New(Struct, frozen=True, gc=False):
    """A delivery about to be added, with all that must be stored together with it."""

    delivery: Delivery
    payload: bytes = b""
    keys: tuple[Key, ...] = ()
    children: tuple[New, ...] = ()
    facts: tuple[Fact, ...] = ()
    results: dict[str, bytes] = field(default_factory=dict)


class Change(Struct, frozen=True, gc=False):
    """What the store has to write for one transition: all of it or nothing.

    `delivery.version` is the version that was read. `payload` replaces the payload (the old
    one is kept under its number); `forget` removes the record instead of writing it;
    `reopens`: an ended delivery is open again.
    """

    delivery: Delivery
    ended: tuple[Attempt, ...] = ()
    results: dict[str, bytes] = field(default_factory=dict)
    drop_results: bool = False
    payload: bytes | None = None
    children: tuple[New, ...] = ()
    child_delta: int = 0
    facts: tuple[Fact, ...] = ()
    forget: bool = False
    reopens: bool = False
