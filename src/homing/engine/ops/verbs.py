"""The operator verbs, as one table: every surface, from the library to MCP, is made of it.

A new verb is a row here, a method of its name in `Operations`, and its transition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from msgspec import Struct

from homing.domain import transitions
from homing.domain.delivery import TERMINAL_STATES, Delivery, State
from homing.engine.access.tokens import Right
from homing.engine.ops import verb_effects as effects

if TYPE_CHECKING:
    from homing.engine.route import Route

Verb: TypeAlias = Literal[
    "replay",
    "confirm",
    "amend",
    "restart",
    "resend",
    "restore",
    "cancel",
    "dismiss",
    "annotate",
]
BulkVerb: TypeAlias = Literal["replay", "dismiss", "cancel", "restore"]
ALL_VERBS: frozenset[Verb] = frozenset(get_args(Verb))
BULK_VERBS: tuple[BulkVerb, ...] = get_args(BulkVerb)

# A replay makes work for a server that may just have recovered.
REPLAYS_PER_SECOND = 10.0


class Argument(Struct, frozen=True, kw_only=True):
    """What a verb takes besides who uses it and why.

    A form of the console asks for it by its `label`; without one, the page fills it in.
    """

    name: str
    kind: Literal["text", "number", "email"]
    about: str
    example: Any = None
    required: bool = False
    least: int = 0
    label: str = ""


class Bulk(Struct, frozen=True, kw_only=True):
    """How a verb is used on all deliveries that a filter selects.

    REST serves it under `path`. `effect` says what will happen to each, `past` what has. By
    default it changes `per_second` deliveries in a second.
    """

    path: str
    about: str
    effect: str
    past: str
    per_second: float | None = None


class OperatorVerb(Struct, frozen=True, kw_only=True):
    """One verb on one delivery.

    `about` is a sentence for lists of verbs, and `more` what follows it. The console shows `label`
    on the button, `effect` before and `done` after the act, and `past` behind the actor's name in
    histories. `from_states` are the states from which it is possible, if no transition of its name
    declares them; `is_possible` is a further condition. A verb that `repairs` may be the next step
    for a delivery. One that changes children first is checked before that. The library and the
    command line call the reason `reason_is`.
    """

    name: Verb
    about: str
    more: str = ""
    label: str
    effect: str | Callable[[Delivery, Route], str]
    done: str
    past: str
    right: Right = "operate"
    arguments: tuple[Argument, ...] = ()
    from_states: tuple[State, ...] = ()
    is_possible: Callable[[Delivery, Route], bool] | None = None
    repairs: bool = False
    changes_children_first: bool = False
    makes_a_new_one: bool = False
    undone_by: Verb | None = None
    reason_is: Literal["reason", "note"] = "reason"
    bulk: Bulk | None = None

    @property
    def sources(self) -> tuple[State, ...]:
        """The states in which a delivery can be changed by it."""
        return self.from_states or transitions.EDGES[self.name].sources

    def is_offered(self, delivery: Delivery, route: Route) -> bool:
        """Whether the route allows it and the delivery is in a state for it."""
        if self.name not in route.verbs or delivery.state not in self.sources:
            return False
        return self.is_possible is None or self.is_possible(delivery, route)

    def effect_on(self, delivery: Delivery, route: Route) -> str:
        """What it would do to this delivery, in a sentence."""
        return self.effect if isinstance(self.effect, str) else self.effect(delivery, route)

    def takes(self, name: str) -> bool:
        return any(argument.name == name for argument in self.arguments)


class RouteVerb(Struct, frozen=True, kw_only=True):
    """One verb on a route; the texts are used as those of an `OperatorVerb`."""

    name: Literal["pause", "resume"]
    about: str
    done: str
    past: str
    right: Right = "operate"


CYCLE = Argument(
    name="cycle",
    kind="number",
    least=1,
    about="The cycle that was seen: a delivery in a later one is not changed.",
)
GENERATION = Argument(
    name="generation", kind="number", about="Hand it to workers of this generation, or a later one."
)
EVIDENCE = Argument(
    name="evidence",
    kind="text",
    required=True,
    about="What shows that it arrived.",
    label="Evidence",
    example="seen in the inbox",
)
EMAIL = Argument(
    name="email",
    kind="email",
    required=True,
    about="The corrected e-mail.",
    example={"to": ["ann@example.org"], "subject": "Booked", "text": "See you on Monday"},
)

# In the order in which they are offered.
_ROWS = (
    OperatorVerb(
        name="replay",
        about="Try a dead letter again from its failed stage.",
        more="It gets a new budget of attempts.",
        label="Replay",
        effect=effects.of_replay,
        done="It is tried again now.",
        past="replayed it",
        arguments=(CYCLE, GENERATION),
        repairs=True,
        changes_children_first=True,
        bulk=Bulk(
            path="replays",
            about="Replay dead letters by filter; it stops when the same error returns.",
            effect="Each is tried again from its failed stage, with a new budget. It stops by"
            " itself if the same error comes back.",
            past="replayed",
            per_second=REPLAYS_PER_SECOND,
        ),
    ),
    OperatorVerb(
        name="confirm",
        about="Record that an uncertain delivery was accepted.",
        more="The evidence is stored.",
        label="Confirm arrival",
        effect="It is recorded as delivered, with your evidence. Nothing is sent.",
        done="It is recorded as delivered.",
        past="confirmed that it arrived",
        arguments=(EVIDENCE,),
        is_possible=lambda delivery, _: delivery.failed_because == "uncertain",
        repairs=True,
    ),
    OperatorVerb(
        name="amend",
        about="Replace the e-mail of a delivery by a corrected one.",
        more="The old one is kept. A dead letter must be replayed afterwards.",
        label="Amend",
        effect=effects.of_amend,
        done="The corrected mail is stored.",
        past="amended it",
        arguments=(EMAIL,),
        is_possible=lambda _, route: route.provider is not None,
        repairs=True,
    ),
    OperatorVerb(
        name="restart",
        about="Try a dead letter again from its first stage.",
        more="The results of finished stages are dropped.",
        label="Restart",
        effect=effects.of_restart,
        done="It starts again from its first stage.",
        past="started it again from its first stage",
        arguments=(CYCLE,),
        is_possible=lambda delivery, route: len(route.plan_of(delivery).stages) > 1,
        repairs=True,
        changes_children_first=True,
    ),
    OperatorVerb(
        name="resend",
        about="Deliver a second time on purpose, as a new delivery.",
        label="Send a copy",
        effect="A second copy is sent on purpose, as a new delivery. This one stays as it is.",
        done="This is the copy; it is on its way.",
        past="sent a second copy",
        from_states=tuple(sorted(TERMINAL_STATES)),
        makes_a_new_one=True,
    ),
    OperatorVerb(
        name="restore",
        about="Undo a dismissal or a cancellation.",
        label="Restore",
        effect=effects.of_restore,
        done="It is open again.",
        past="restored it",
        repairs=True,
        changes_children_first=True,
        bulk=Bulk(
            path="restorations",
            about="Open dismissed and cancelled deliveries again, by filter.",
            effect="Each is opened again, whoever closed it: dismissed ones become dead letters and"
            " send nothing, cancelled ones are due when they were.",
            past="restored",
        ),
    ),
    OperatorVerb(
        name="cancel",
        about="Stop a delivery that has not been sent.",
        label="Cancel",
        effect=effects.of_cancel,
        done="It was withdrawn.",
        past="cancelled it",
        undone_by="restore",
        bulk=Bulk(
            path="cancellations",
            about="Stop deliveries that have not been sent, by filter.",
            effect="Each is withdrawn before it is sent. It can be restored.",
            past="cancelled",
        ),
    ),
    OperatorVerb(
        name="dismiss",
        about="Close a dead letter; `restore` undoes it.",
        label="Dismiss",
        effect="It is closed and will not be tried again. You can restore it.",
        done="It was dismissed.",
        past="dismissed it",
        arguments=(CYCLE,),
        undone_by="restore",
        bulk=Bulk(
            path="dismissals",
            about="Close dead letters by filter; they can be restored.",
            effect="Each is closed and not tried again. It can be restored.",
            past="dismissed",
        ),
    ),
    OperatorVerb(
        name="annotate",
        about="Add a note to the history of a delivery.",
        label="Add a note",
        effect="Your note is added to its history. Nothing else changes.",
        done="Your note is part of its history now.",
        past="wrote a note",
        from_states=get_args(State),
        reason_is="note",
    ),
)
VERBS: dict[Verb, OperatorVerb] = {row.name: row for row in _ROWS}
# The verbs that can be used by filter, in the order of `BULK_VERBS`.
BULK: dict[BulkVerb, Bulk] = {
    name: bulk for name in BULK_VERBS if (bulk := VERBS[name].bulk) is not None
}
ROUTE_VERBS: dict[str, RouteVerb] = {
    row.name: row
    for row in (
        RouteVerb(
            name="pause",
            about="Stop a route until it is resumed.",
            done="The route is paused. All workers know of it within a second.",
            past="paused the route",
        ),
        RouteVerb(
            name="resume",
            about="Start a paused route again.",
            done="The route runs again.",
            past="resumed the route",
        ),
    )
}


def past_of(verb: str) -> str:
    """What an entry of the audit says that its actor did."""
    row = VERBS.get(verb) or ROUTE_VERBS.get(verb)  # type: ignore[call-overload] # an audit holds any text
    return f"used {verb}" if row is None else row.past
