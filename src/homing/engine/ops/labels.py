"""Label tables: a plugin's own status words, as data, used for display and in filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import get_args

from msgspec import Struct

from homing.domain.delivery import Delivery, FailedBecause, Phase, State
from homing.ports import Facet


class Label(Struct, frozen=True):
    """A row: the word for deliveries that match every condition; None: any."""

    word: str
    state: State
    stage: str | None = None
    attempted: bool | None = None
    failed_because: FailedBecause | None = None
    phase: Phase | None = None
    retrying_children: bool | None = None

    def fits(self, facet: Facet) -> bool:
        """Whether a delivery with these properties has this label."""
        return (
            self.state == facet.state
            and self.stage in (None, facet.stage)
            and self.attempted in (None, facet.attempted)
            and self.failed_because in (None, facet.failed_because)
            and self.phase in (None, facet.phase)
            and self.retrying_children in (None, facet.retrying_children)
        )


class LabelTable(Struct, frozen=True):
    """Rows in order; the first that matches gives the label."""

    rows: tuple[Label, ...]

    def __post_init__(self) -> None:
        # A word that is shown must also be found by its filter.
        for row in self.rows:
            if row.failed_because is not None and row.state != "failed":
                raise ValueError(f"{row.word}: a reason is only allowed with the state failed")
            if row.phase is not None and row.state != "in_flight":
                raise ValueError(f"{row.word}: a phase is only allowed with the state in_flight")
            if row.retrying_children is not None and row.state != "waiting":
                raise ValueError(
                    f"{row.word}: retrying children are only allowed with the state waiting"
                )

    @property
    def sees_children(self) -> bool:
        """Whether the word of a waiting delivery depends on its children."""
        return any(row.retrying_children is not None for row in self.rows)

    def word(self, delivery: Delivery) -> str:
        """The label of this delivery."""
        facet = Facet(
            state=delivery.state,
            stage=delivery.stage,
            attempted=delivery.attempts_spent > 0,
            failed_because=delivery.failed_because,
            phase=delivery.phase,
            retrying_children=delivery.retrying_children > 0,
        )
        return self._word(facet)

    def words(self) -> tuple[str, ...]:
        """All words of the table, each once."""
        return tuple(dict.fromkeys(row.word for row in self.rows))

    def facets(self, word: str, stages: tuple[str, ...]) -> tuple[Facet, ...]:
        """The combinations shown as `word`: what a filter by that word must match."""
        return tuple(facet for facet in _all_facets(stages) if self._word(facet) == word)

    def _word(self, facet: Facet) -> str:
        for row in self.rows:
            if row.fits(facet):
                return row.word
        return facet.state


def labels(words: Mapping[State, str]) -> LabelTable:
    """The simple table: one word per state."""
    return LabelTable(tuple(Label(word, state) for state, word in words.items()))


def _all_facets(stages: tuple[str, ...]) -> Iterator[Facet]:
    """Every combination that a stored delivery can show."""
    for state, stage, attempted in product(get_args(State), stages, (False, True)):
        # A failed one always has a reason; only one under way can be in an inline call.
        reasons = get_args(FailedBecause) if state == "failed" else (None,)
        phases: tuple[Phase | None, ...] = get_args(Phase) if state == "in_flight" else (None,)
        # Only one that waits is told by its children.
        retrying: tuple[bool | None, ...] = (False, True) if state == "waiting" else (None,)
        for because, phase, children in product(reasons, phases, retrying):
            yield Facet(
                state=state,
                stage=stage,
                attempted=attempted,
                failed_because=because,
                phase=phase,
                retrying_children=children,
            )


ENGINE_LABELS = LabelTable(tuple(Label(state, state) for state in get_args(State)))
