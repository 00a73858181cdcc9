"""The kinds of routes that a world may have, as data: engine and oracle read the same table.

Each stands for a use of the engine: plain mail that is sent again in doubt or held, a service
that can be asked, one that folds equal tokens, events, staged jobs, a digest that fans out.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from homing.domain.policy import OnRouteFault, OnUnknown

TIMEOUT_S = 5.0
POLL_S = 10.0
PROBE_EVERY_S = 8.0
# What the engine adds to a stage's own time.
LEASE_S = TIMEOUT_S + 30.0


class RouteKind(Struct, frozen=True, kw_only=True):
    """What sets one kind of route apart."""

    carries: Literal["mail", "event", "job", "digest"] = "mail"
    ladder_s: tuple[float, ...] = (1.0, 4.0, 10.0)
    max_attempts: int = 4
    on_unknown: OnUnknown = "retry"
    on_route_fault: OnRouteFault = "pause"
    inline_counts: bool = True
    interrupted_counts: bool = False
    keep_delivered: bool = True
    retry_after_cap_s: float | None = None
    # Of the service behind it: can it be asked, is it handed many at once, does it fold tokens,
    # does it answer for single recipients.
    can_look: bool = False
    takes_groups: bool = False
    token_window_s: float = 0.0
    answers_apart: bool = False
    # How long its key lasts after its end, and how long its record does; None: for ever.
    key_term_s: float | None = None
    kept_s: float | None = None
    on_mismatch: Literal["conflict", "return_existing"] = "conflict"


STAGES: dict[str, tuple[str, ...]] = {"job": ("fetch", "llm", "notify")}

ROUTE_KINDS: dict[str, RouteKind] = {
    "post": RouteKind(takes_groups=True, answers_apart=True),
    "held": RouteKind(answers_apart=True, on_unknown="hold", inline_counts=False),
    "asked": RouteKind(can_look=True, on_unknown="hold"),
    "folded": RouteKind(token_window_s=24.0, on_unknown="hold"),
    "strict": RouteKind(
        takes_groups=True,
        on_route_fault="fail",
        retry_after_cap_s=6.0,
        interrupted_counts=True,
        max_attempts=3,
    ),
    "stubborn": RouteKind(on_route_fault="retry", max_attempts=6, ladder_s=(0.5, 2.0)),
    "gone": RouteKind(
        takes_groups=True, keep_delivered=False, answers_apart=True, on_mismatch="return_existing"
    ),
    "brief": RouteKind(takes_groups=True, key_term_s=40.0, kept_s=30.0),
    "event": RouteKind(carries="event", key_term_s=90.0, kept_s=60.0),
    "job": RouteKind(carries="job"),
    "digest": RouteKind(carries="digest", on_unknown="hold", answers_apart=True),
}
