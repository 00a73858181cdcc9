"""Deliveries and transitions for those who watch, full of what must not be shown."""

from homing.domain.delivery import Attempt, Delivery, Recipient
from homing.domain.failure import Failure
from homing.ports import Transitioned

CANARY = "canary-7f3a"
ADDRESS = f"{CANARY}@example.org"
DELIVERY_ID = "01a1e16c-127b-7987-8af8-3ffebde6bf9c"
T0_MS = 1_800_000_000_000


def delivery(**fields: object) -> Delivery:
    """One mail; every field that a caller fills holds the canary."""
    given: dict[str, object] = {
        "id": DELIVERY_ID,
        "route": "mail",
        "queue": "mail",
        "stage": "send",
        "created_at_ms": T0_MS,
        "updated_at_ms": T0_MS + 250,
        "source": CANARY,
        "key": f"{CANARY}-key",
        "topic": CANARY,
        "recipients": (Recipient(ADDRESS),),
        "metadata": {"order": CANARY},
        "attempts_spent": 1,
        "attempts_ended": 1,
    }
    return Delivery(**{**given, **fields})  # type: ignore[arg-type] # fields are given by name


def dead_letter(**fields: object) -> Delivery:
    failure = Failure("recipient_refused", "reject", code="550", detail=f"{CANARY} unknown")
    given: dict[str, object] = {
        "state": "failed",
        "failed_because": "rejected",
        "failure": failure,
        "ended_at_ms": T0_MS + 250,
        "notices_due": ("alert",),
    }
    return delivery(**{**given, **fields})


def attempt(status: str = "done", **fields: object) -> Attempt:
    given: dict[str, object] = {
        "delivery_id": DELIVERY_ID,
        "number": 1,
        "stage": "send",
        "status": status,
        "started_at_ms": T0_MS,
        "ended_at_ms": T0_MS + 250,
        "notification_id": CANARY,
    }
    return Attempt(**{**given, **fields})  # type: ignore[arg-type] # fields are given by name


def succeeded() -> Transitioned:
    return Transitioned(
        "succeed",
        delivery(state="delivered", ended_at_ms=T0_MS + 250),
        delivery(state="in_flight"),
        (attempt(),),
        T0_MS + 250,
    )


def refused() -> Transitioned:
    ended = attempt("rejected", error_class="recipient_refused", code="550", detail=CANARY)
    return Transitioned("fail", dead_letter(), delivery(state="in_flight"), (ended,), T0_MS + 250)


def accepted() -> Transitioned:
    return Transitioned("accept", delivery(), None, (), T0_MS)
