"""What an operator may do to a delivery now, and what each act will do, said before it is done."""

from __future__ import annotations

from msgspec import Struct

from homing.domain.delivery import Delivery
from homing.engine.ops.verbs import VERBS, Argument, OperatorVerb, Verb
from homing.engine.route import Route


class Action(Struct, frozen=True):
    """A verb that is offered: the label of its button, what it will do, and what a form asks for.

    The main one is shown as the next step.
    """

    verb: Verb
    label: str
    effect: str
    asks: tuple[Argument, ...]
    reason_is: str
    main: bool = False


def offered(delivery: Delivery, route: Route | None) -> list[Action]:
    """The verbs that its route allows and its state makes possible; none for an unknown route."""
    if route is None:
        return []
    possible = [row for row in VERBS.values() if row.is_offered(delivery, route)]
    return [_action(row, delivery, route, first=row is possible[0]) for row in possible]


def _action(row: OperatorVerb, delivery: Delivery, route: Route, *, first: bool) -> Action:
    again = row.name == "replay" and delivery.possibly_sent
    asks = tuple(each for each in row.arguments if each.label)
    label, effect = "Send again" if again else row.label, row.effect_on(delivery, route)
    return Action(row.name, label, effect, asks, row.reason_is, first and row.repairs)
