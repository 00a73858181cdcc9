"""What an operator may do to a delivery now, and what each act will do, said before it is done."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from homing.domain import transitions
from homing.domain.delivery import TERMINAL_STATES, Delivery
from homing.engine.ops.views import budget_of
from homing.engine.route import Route, Verb
from homing.web.api.intake import takes_emails
from homing.web.console.words import plural


class Action(Struct, frozen=True):
    """A verb that is offered: the label of its button, and what it will do."""

    verb: Verb
    label: str
    says: str
    done: str
    main: bool = False


def _replay(delivery: Delivery, route: Route) -> str:
    stage = delivery.restart_at or delivery.stage
    says = (
        f"It is tried again at once, from stage {stage!r}, with a new budget of"
        f" {plural(_budget(delivery, route), 'attempt')}."
    )
    if any(recipient.outcome == "accepted" for recipient in delivery.recipients):
        says += " Recipients that have accepted it get no second copy."
    if delivery.possibly_sent:
        says += " It may have arrived already: what is sent now may be a duplicate, and says so."
    return says


def _budget(delivery: Delivery, route: Route) -> int:
    return max(budget_of(delivery, route), 1)


def _restart(delivery: Delivery, route: Route) -> str:
    first = route.plan_of(delivery).first_stage.name
    return f"It starts again from its first stage, {first!r}. Results of finished stages go."


def _cancel(delivery: Delivery, route: Route) -> str:
    del route
    if delivery.possibly_sent:
        return (
            "An attempt may have been accepted, so it cannot be called unsent: it becomes a dead"
            " letter that may have arrived."
        )
    return "It is withdrawn and will not be delivered. You can restore it."


def _restore(delivery: Delivery, route: Route) -> str:
    del route
    if delivery.failed_because is not None:
        return "It goes back to the dead letters. Nothing is sent."
    return "It is due again when it was, or at once if that time has passed."


def _amend(delivery: Delivery, route: Route) -> str:
    del route
    after = "replay it afterwards" if delivery.state == "failed" else "the next attempt sends it"
    return f"A corrected mail takes the place of this one, which is kept; {after}."


def _always(text: str) -> Callable[[Delivery, Route], str]:
    def says(delivery: Delivery, route: Route) -> str:
        del delivery, route
        return text

    return says


# In the order in which they are offered: label, what it will do, what it did.
ACTIONS: dict[Verb, tuple[str, Callable[[Delivery, Route], str], str]] = {
    "replay": ("Replay", _replay, "It is tried again now."),
    "confirm": (
        "Confirm arrival",
        _always("It is recorded as delivered, with your evidence. Nothing is sent."),
        "It is recorded as delivered.",
    ),
    "amend": ("Amend", _amend, "The corrected mail is stored."),
    "restart": ("Restart", _restart, "It starts again from its first stage."),
    "resend": (
        "Send a copy",
        _always("A second copy is sent on purpose, as a new delivery. This one stays as it is."),
        "This is the copy; it is on its way.",
    ),
    "restore": ("Restore", _restore, "It is open again."),
    "cancel": ("Cancel", _cancel, "It was withdrawn."),
    "dismiss": (
        "Dismiss",
        _always("It is closed and will not be tried again. You can restore it."),
        "It was dismissed.",
    ),
    "annotate": (
        "Add a note",
        _always("Your note is added to its history. Nothing else changes."),
        "Your note is part of its history now.",
    ),
}


# Shown as the next step; a second copy or a note is never what a delivery needs.
MENDING = frozenset({"replay", "confirm", "amend", "restart", "restore"})


def offered(delivery: Delivery, route: Route | None) -> list[Action]:
    """Those that its route allows and its state makes possible; none for an unknown route."""
    if route is None:
        return []
    chosen = [
        verb for verb in ACTIONS if verb in route.verbs and _is_possible(verb, delivery, route)
    ]
    return [_action(verb, delivery, route, main=verb == chosen[0]) for verb in chosen]


def _action(verb: Verb, delivery: Delivery, route: Route, *, main: bool) -> Action:
    label, says, done = ACTIONS[verb]
    if verb == "replay" and delivery.possibly_sent:
        label = "Send again"
    return Action(verb, label, says(delivery, route), done, main and verb in MENDING)


def _is_possible(verb: Verb, delivery: Delivery, route: Route) -> bool:
    if verb in ("annotate", "resend"):
        return verb == "annotate" or delivery.state in TERMINAL_STATES
    if delivery.state not in transitions.EDGES[verb].sources:
        return False
    further: dict[Verb, bool] = {
        "confirm": delivery.failed_because == "uncertain",
        "restart": len(route.plan_of(delivery).stages) > 1,
        "amend": takes_emails(route),
    }
    return further.get(verb, True)
