"""Failures as values: what went wrong, and what may be done about it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

Disposition: TypeAlias = Literal["retry", "reject", "suppress", "route_fault"]

# Error classes of the engine itself; providers and plugins have their own.
RATE_LIMITED = "rate_limited"
TIMED_OUT = "timed_out"
RECIPIENT_DEFERRED = "recipient_deferred"
RECIPIENT_REFUSED = "recipient_refused"
CHILDREN_FAILED = "children_failed"
STORE_DAMAGED = "store_damaged"
# Classes of failures that concern the provider itself, whatever was sent.
PROVIDER_FAILS = frozenset(
    {"connect_failed", "unreachable", "tls_failed", "auth_failed", "token_revoked"}
)


class Refusal(Struct, frozen=True, gc=False, omit_defaults=True):
    """One recipient that was refused while the message was sent to the others.

    With `maybe_sent` the answer was lost: the recipient may have the message.
    """

    permanent: bool
    code: str | None = None
    detail: str | None = None
    maybe_sent: bool = False


class Failure(Struct, frozen=True, gc=False, omit_defaults=True):
    """An expected failure. `error_class` is a stable name; `detail` is already redacted.

    `maybe_sent`: the provider may have accepted it nevertheless. `refused` has the
    recipients with an answer of their own.
    """

    error_class: str
    disposition: Disposition = "retry"
    code: str | None = None
    detail: str = ""
    retry_after_s: float | None = None
    maybe_sent: bool = False
    refused: dict[str, Refusal] = field(default_factory=dict)
    trace: str | None = None
