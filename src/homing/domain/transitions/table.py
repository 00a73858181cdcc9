"""The declared table: from which states each transition may start, and where it may end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec

from msgspec import Struct

from homing.domain.delivery import Change, Delivery, State
from homing.domain.errors import NotAllowed

P = ParamSpec("P")


class Edge(Struct, frozen=True):
    """One row of the state machine."""

    name: str
    sources: tuple[State, ...]
    targets: tuple[State, ...]
    meaning: str


EDGES: dict[str, Edge] = {}


def transition(
    *, sources: tuple[State, ...], targets: tuple[State, ...]
) -> Callable[
    [Callable[Concatenate[Delivery, P], Change]], Callable[Concatenate[Delivery, P], Change]
]:
    def declare(
        function: Callable[Concatenate[Delivery, P], Change],
    ) -> Callable[Concatenate[Delivery, P], Change]:
        verb = function.__name__
        meaning = (function.__doc__ or "").strip().splitlines()[0]
        EDGES[verb] = Edge(verb, sources, targets, meaning)

        @functools.wraps(function)
        def checked(delivery: Delivery, /, *args: P.args, **kwargs: P.kwargs) -> Change:
            if delivery.state not in sources:
                raise NotAllowed(
                    f"cannot {verb.replace('_', ' ')} delivery {delivery.id}: it is"
                    f" {delivery.state}, not {' or '.join(sources)}"
                )
            change = function(delivery, *args, **kwargs)
            if change.delivery.state not in targets:
                raise AssertionError(f"{verb} may not lead to {change.delivery.state}")
            return change

        return checked

    return declare
