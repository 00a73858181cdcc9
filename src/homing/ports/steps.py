"""What a stage of a plan does with a delivery, and how that ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, field

from homing.domain.delivery import Content, Delivery, New, Receipt
from homing.domain.failure import Failure, Refusal


class Done(Struct, frozen=True, gc=False):
    """A stage has finished; `result` is kept, `receipt` is the evidence for the last stage."""

    result: bytes | None = None
    receipt: Receipt | None = None
    refused: dict[str, Refusal] = field(default_factory=dict)


class FanOut(Struct, frozen=True):
    """A stage created several deliveries; it is done when all of them are."""

    children: tuple[New, ...]
    result: bytes | None = None


Outcome: TypeAlias = Done | FanOut | Failure


class Work(Protocol):
    """What a step sees of the attempt it runs in."""

    @property
    def delivery(self) -> Delivery:
        """The delivery as it was claimed."""

    @property
    def content(self) -> Content:
        """Its payload and the results of finished stages."""

    @property
    def now_ms(self) -> int:
        """The time by the clock of the engine."""

    def child(  # noqa: PLR0913 - a child may differ from its parent in each of these
        self,
        *,
        payload: bytes,
        queue: str = "",
        plan: str = "",
        stage: str | None = None,
        topic: str | None = None,
        intent: str | None = None,
        recipients: tuple[str, ...] = (),
        required: bool = True,
        metadata: Mapping[str, str] | None = None,
    ) -> New:
        """A child of this delivery, for a step that fans out.

        `queue` is the suffix of its queue under the route's name.
        """


class Step(Protocol):
    """The code of one stage. It returns expected failures and may raise unexpected ones."""

    def __call__(self, work: Work) -> Coroutine[Any, Any, Outcome]: ...


class QueueStep(Step, Protocol):
    """A step that calls different code in each queue, and looks it up once for a whole batch."""

    def for_queue(self, delivery: Delivery) -> Step:
        """The step for this delivery and all others of its queue."""


Guard: TypeAlias = Callable[[Any], None]


Handler: TypeAlias = Callable[[Any], Awaitable[Any]]
