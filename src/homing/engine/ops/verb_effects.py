"""What a verb would do to one delivery, in sentences, where that depends on the delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from homing.domain.delivery import Delivery

if TYPE_CHECKING:
    from homing.engine.route import Route


def of_replay(delivery: Delivery, route: Route) -> str:
    stage = delivery.restart_at or delivery.stage
    budget = max(route.budget_of(delivery), 1)
    attempts = "1 attempt" if budget == 1 else f"{budget:,} attempts"
    effect = f"It is tried again at once, from stage {stage!r}, with a new budget of {attempts}."
    if any(recipient.outcome == "accepted" for recipient in delivery.recipients):
        effect += " Recipients that have accepted it get no second copy."
    if delivery.possibly_sent:
        effect += " It may have arrived already: what is sent now may be a duplicate, and says so."
    return effect


def of_restart(delivery: Delivery, route: Route) -> str:
    first = route.plan_of(delivery).first_stage.name
    return f"It starts again from its first stage, {first!r}. Results of finished stages go."


def of_cancel(delivery: Delivery, _: Route) -> str:
    if delivery.possibly_sent:
        return (
            "An attempt may have been accepted, so it cannot be called unsent: it becomes a dead"
            " letter that may have arrived."
        )
    return "It is withdrawn and will not be delivered. You can restore it."


def of_restore(delivery: Delivery, _: Route) -> str:
    if delivery.failed_because is not None:
        return "It goes back to the dead letters. Nothing is sent."
    return "It is due again when it was, or at once if that time has passed."


def of_amend(delivery: Delivery, _: Route) -> str:
    after = "replay it afterwards" if delivery.state == "failed" else "the next attempt sends it"
    return f"A corrected mail takes the place of this one, which is kept; {after}."
