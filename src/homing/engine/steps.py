"""The ready-made steps: sending through a provider, and calling a function of the user's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from msgspec import Struct

from homing.domain import delivery as domain
from homing.domain.delivery import Content, Delivery
from homing.domain.failure import Failure
from homing.domain.identity import provider_token
from homing.domain.redaction import redact
from homing.engine.claimed_work import ClaimLost
from homing.ports import Accepted, Done, Envelope, Outcome, Provider, Work

FROZEN = domain.FROZEN


class Packed(Struct, gc=False):
    """A send before its mark."""

    envelope: Envelope
    to_store: dict[str, bytes]


class SendStep:
    """Hands frozen bytes to a provider, with the durable mark between prepare and commit.

    `freeze` builds the bytes once, at the first attempt; they are stored with the mark and
    every later attempt sends the same ones. `notice` may add a fixed text to what may be a
    duplicate.
    """

    def __init__(
        self,
        provider: Provider,
        freeze: Callable[[Delivery, Content], bytes | Failure],
        *,
        sender: str | None = None,
        notice: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.provider = provider
        self._freeze = freeze
        self._sender = sender
        self._notice = notice

    def pack(self, delivery: Delivery, content: Content) -> Packed | Failure:
        """What goes out, and what of it must be stored with the mark."""
        frozen = content.results.get(FROZEN)
        data = self._freeze(delivery, content) if frozen is None else frozen
        if isinstance(data, Failure):
            return data
        to_store = {FROZEN: data} if frozen is None else {}
        if delivery.maybe_duplicate and self._notice is not None:
            data = self._notice(data)
        envelope = Envelope(
            delivery_id=delivery.id,
            token=provider_token(delivery),
            recipients=delivery.open_addresses,
            data=data,
            sender=self._sender,
            metadata=delivery.metadata,
        )
        return Packed(envelope, to_store)

    async def __call__(self, work: Work) -> Outcome:
        packed = self.pack(work.delivery, work.content)
        if isinstance(packed, Failure):
            return packed
        ready = await self.provider.prepare(packed.envelope)
        if isinstance(ready, Failure):
            return ready
        try:
            marked = await work.mark_committing(packed.to_store)
        except BaseException:
            # What a broken provider raises here must not hide that the attempt was cancelled.
            with contextlib.suppress(Exception):
                await ready.abandon()
            raise
        if not marked:
            with contextlib.suppress(Exception):
                await ready.abandon()
            raise ClaimLost
        return outcome_of(await ready.commit())


def outcome_of(answer: object) -> Done | Failure:
    if isinstance(answer, Failure):
        return answer
    if not isinstance(answer, Accepted):
        # After the mark, and against the contract of a provider: nobody knows what became of it.
        detail = f"the provider answered with {type(answer).__name__}"
        return Failure("provider_error", detail=detail, maybe_sent=True)
    return Done(receipt=answer.receipt, refused=answer.refused)


def refuse(error_class: str, detail: str) -> Failure:
    """A permanent failure found before any provider was used."""
    return Failure(error_class, "reject", detail=redact(detail))
