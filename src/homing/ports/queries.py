"""Queries of a store: listings, counts and purges."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from homing.domain.delivery import Delivery, FailedBecause, Phase, State


class Facet(Struct, frozen=True, kw_only=True):
    """One combination of properties that a label stands for; None: any.

    `retrying_children`: whether a child of it waits to be tried again after a failure.
    `except_routes` excludes the routes that have another word for it.
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
    """Which deliveries: those that match all conditions. `facets` are alternatives.

    `top_only` excludes children, so that a listing shows each request once. `notices_due`: whether
    any notice of a delivery is still due.
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

    With `newer` it is the first item seen, and the page just above it is returned.
    """

    created_at_ms: int
    delivery_id: str
    newer: bool = False


class Page(Struct, frozen=True):
    """Newest first: by creation time, then id, both descending, in either direction of paging.

    `previous` leads to the newer ones; a page that is known to be the first has none.
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
    "route", "state", "failed_because", "error_class", "stage", "required", "queue", "source"
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
