"""Which deliveries: the filters of `list` and `dead`, and of the verbs that act on many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, cast, get_args

import typer
from msgspec import structs

from homing.cli.options import OptionGroup
from homing.cli.session import WrongUse
from homing.domain.delivery import FailedBecause, State
from homing.engine.ops.status_words import facets_of, status_words
from homing.engine.route import Route
from homing.ports import Facet, Query
from homing.runtime.app import Homing
from homing.settings import seconds

REASONS = get_args(FailedBecause)
STATES = get_args(State)


class DeadFilter(OptionGroup, frozen=True, kw_only=True):
    """Which dead letters, as people write it. What is left out is any."""

    because: Annotated[str | None, typer.Option(help=f"Why it failed: {', '.join(REASONS)}.")] = (
        None
    )
    error_class: Annotated[str | None, typer.Option(help="The class of the last error.")] = None
    recipient: Annotated[str | None, typer.Option(help="An address of the envelope.")] = None
    route: Annotated[str | None, typer.Option(help="The route.")] = None
    source: Annotated[str | None, typer.Option(help="Which program submitted it.")] = None
    key: Annotated[str | None, typer.Option(help="The idempotency key.")] = None
    template: Annotated[
        str | None, typer.Option(help="The template, the type of an event, or the job.")
    ] = None
    since: Annotated[
        str | None,
        typer.Option(help="Created since then: 2h for two hours ago, or 2026-11-16T08:00Z."),
    ] = None
    until: Annotated[str | None, typer.Option(help="Created before then.")] = None

    async def query(self, homing: Homing) -> Query:
        """What it means in this store; a word that is not known there is wrong usage."""
        await self._check_route(homing)
        now_ms = homing.engine.clock.now_ms()
        return Query(
            route=self.route,
            source=self.source,
            key=self.key,
            topic=self.template,
            recipient=None if self.recipient is None else address_as_stored(self.recipient),
            error_class=self.error_class,
            facets=self.facets(homing.engine.routes),
            # Each request once; addresses and errors are those of its parts.
            top_only=self.recipient is None and self.error_class is None,
            created_from_ms=_moment("since", self.since, now_ms),
            created_before_ms=_moment("until", self.until, now_ms),
        )

    def facets(self, routes: Mapping[str, Route]) -> tuple[Facet, ...] | None:
        """The dead letters with this reason."""
        del routes
        return tuple(_because(self.because, (Facet(state="failed"),)))

    async def _check_route(self, homing: Homing) -> None:
        await check_route(homing, self.route)


async def check_route(homing: Homing, name: str | None) -> None:
    """Refuse one that nothing is known of: an empty answer would be taken for one."""
    from homing.engine.ops.inspecting import known_routes

    if name is None or name in homing.engine.routes:
        return
    if name not in (known := await known_routes(homing.engine)):
        raise WrongUse(f"--route: there is no route {name!r}; there are {', '.join(known)}")


class Filter(DeadFilter, frozen=True, kw_only=True):
    """Which deliveries, of any status."""

    status: Annotated[str | None, typer.Option(help="A status word.")] = None
    state: Annotated[str | None, typer.Option(help=f"The engine's state: {', '.join(STATES)}.")] = (
        None
    )

    @classmethod
    def of(cls, conditions: Sequence[str]) -> Filter:
        """From `NAME=VALUE` texts; the names are those of the options of `list`."""
        given: dict[str, str] = {}
        for condition in conditions:
            name, equals, value = condition.partition("=")
            field = name.strip().replace("-", "_")
            if field not in cls.__struct_fields__ or not equals or not value:
                known = ", ".join(each.replace("_", "-") for each in cls.__struct_fields__)
                raise WrongUse(f"--filter {condition}: write NAME=VALUE; the names are {known}")
            if field in given:
                raise WrongUse(f"--filter {condition}: {name} is given twice")
            given[field] = value
        return cls(**given)

    def facets(self, routes: Mapping[str, Route]) -> tuple[Facet, ...] | None:
        found = self._by_status(routes)
        if self.state is None:
            return found
        if self.state not in STATES:
            raise WrongUse(
                f"--state: {self.state!r} is not a state; use one of {', '.join(STATES)}"
            )
        named = (Facet(state=cast(State, self.state)),) if found is None else found
        return tuple(facet for facet in named if facet.state == self.state)

    def _by_status(self, routes: Mapping[str, Route]) -> tuple[Facet, ...] | None:
        if self.status is None:
            return None if self.because is None else super().facets(routes)
        facets = facets_of(self.status, routes, self.route)
        if not facets:
            words = ", ".join(status_words(routes, self.route))
            raise WrongUse(f"--status: {self.status!r} is not a status; use one of {words}")
        return tuple(_because(self.because, facets))


def _because(word: str | None, facets: tuple[Facet, ...]) -> Iterator[Facet]:
    """Those of the facets that have this reason; all of them without one."""
    if word is not None and word not in REASONS:
        known = ", ".join(REASONS)
        raise WrongUse(f"--because: {word!r} is not a reason; use one of {known}")
    for facet in facets:
        if word is None:
            yield facet
        elif facet.state == "failed" and facet.failed_because in (None, word):
            yield structs.replace(facet, failed_because=word)


def address_as_stored(text: str) -> str:
    from homing.content.addresses import as_stored

    return as_stored(text)


def _moment(name: str, text: str | None, now_ms: int) -> int | None:
    """A time, or a span before now."""
    if text is None:
        return None
    try:
        return now_ms - round(seconds(text) * 1000)
    except ValueError:
        pass
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise WrongUse(
            f"--{name}: {text!r} is not a time; write 2h, 7d or 2026-11-16T08:00Z"
        ) from None
    return round((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1000)
