"""The words of `why`: one table for what is sent, one for handlers and jobs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from homing.domain.delivery import AttemptStatus, Delivery, FailedBecause, RecipientOutcome
from homing.domain.policy import Plan


class Words(Struct, frozen=True):
    """How attempts end, why a delivery has failed, and what an operator can do about it.

    `{attempts}` stands for the number of attempts in this cycle.
    """

    ended: Mapping[AttemptStatus, str]
    because: Mapping[FailedBecause, str]
    next_step: Mapping[FailedBecause, str]


_ENDED: dict[AttemptStatus, str] = {
    "suppressed": "was suppressed on purpose",
    "failed": "failed and may be tried again",
    "timed_out": "got no answer in time",
    "interrupted": "was interrupted: its worker ended before the outcome was known",
    "route_fault": "met a fault of the route, not of the message",
}
_BECAUSE: dict[FailedBecause, str] = {
    "exhausted": "All {attempts} attempts failed.",
    "uncertain": "An attempt may have been accepted, and there is no evidence for or against.",
    "expired": "Its time ran out before it could be delivered.",
    "poison": "It made its worker crash repeatedly.",
}
_NEXT_STEP: dict[FailedBecause, str] = {
    "exhausted": "When the server works again, replay it; or dismiss it.",
    "expired": "Resend it if it is still wanted; or dismiss it.",
    "poison": "Look at the worker's log, fix the cause, then replay; or dismiss it.",
}

SENT = Words(
    ended=_ENDED | {"done": "was accepted", "rejected": "was refused permanently"},
    because=_BECAUSE
    | {"rejected": "It was refused permanently; unchanged it would be refused again."},
    next_step=_NEXT_STEP
    | {
        "rejected": "Fix the cause (address, content), amend it if needed, then replay or"
        " dismiss it.",
        "uncertain": "Ask the provider; then `confirm` it with evidence if it arrived, or `replay`"
        " it (flagged as a possible duplicate) if it did not.",
    },
)
WORKED = Words(
    ended=_ENDED
    | {
        "done": "finished",
        "rejected": "failed permanently",
        "timed_out": "did not finish in time",
        "route_fault": "met a fault of the route, not of the work",
    },
    because=_BECAUSE
    | {
        "rejected": "It failed permanently; unchanged it would fail again.",
        "uncertain": "An attempt may have taken effect, and there is no evidence for or against.",
        "expired": "Its time ran out before it could be finished.",
    },
    next_step=_NEXT_STEP
    | {
        "rejected": "Fix the code or the data, amend it if needed, then replay or dismiss it.",
        "exhausted": "When the cause is fixed, replay it; or dismiss it.",
        "uncertain": "Check whether it took effect; then `confirm` it with evidence, or `replay`"
        " it if it did not.",
    },
)
PARTS_FAILED = (
    "Some of its children have failed.",
    "Fix the cause in its failed children, then replay it: they are replayed with it.",
)
RECIPIENT: dict[RecipientOutcome, str] = {
    "open": "not sent yet",
    "accepted": "accepted",
    "refused": "refused",
    "maybe": "maybe accepted",
}
EVIDENCE = {
    "lookup": " (found by asking the provider)",
    "operator": " (confirmed by a person)",
    "late": " (known from a late answer)",
}


# Of a delivery that has failed.
NOT_DELIVERED = "not delivered"


def words_for(delivery: Delivery, plan: Plan | None, stage: str | None = None) -> Words:
    """Returns `SENT` if the delivery has recipients or its plan has a sending stage, else `WORKED`.

    With `stage`, that stage alone decides: rendering a mail is work, too.
    """
    stages = () if plan is None else plan.stages
    if stage is not None and any(one.name == stage for one in stages):
        return SENT if plan is not None and plan.stage(stage).sends else WORKED
    return SENT if delivery.recipients or any(one.sends for one in stages) else WORKED
