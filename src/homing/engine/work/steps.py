"""The standard step of a sending stage: how the bytes are made, and which provider sends them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from homing.domain import delivery as domain
from homing.domain.delivery import Content, Delivery
from homing.domain.failure import Failure
from homing.domain.identity import provider_token
from homing.domain.redaction import redact
from homing.engine.work.one_at_a_time import as_group_provider
from homing.ports import Accepted, Done, Envelope, GroupProvider, Outcome, Provider, Work

FROZEN = domain.FROZEN

Compose: TypeAlias = Callable[[Delivery, Content], bytes | Failure]


class Packed(Struct, gc=False):
    """A send before its mark."""

    envelope: Envelope
    to_store: dict[str, bytes]


class SendStep:
    """Sends through a provider, in batches, with the durable mark between prepare and commit.

    `freeze` builds the bytes once, at the first attempt; they are stored with the mark and
    every later attempt sends the same ones. A possible duplicate may differ: `compose_duplicate`,
    if given, composes it, to include a notice. `unless` may end an attempt before its send: it is
    called each time, and None means to send. `sender` is that of the envelope. `sign` is applied to
    the bytes last, and what it adds is not stored. `slow` sends, such as signed ones, are packed in
    a thread.
    """

    def __init__(
        self,
        provider: Provider,
        freeze: Compose,
        *,
        sender: str | Callable[[Content], str] | None = None,
        compose_duplicate: Compose | None = None,
        unless: Callable[[Work], Awaitable[Outcome | None]] | None = None,
        sign: Callable[[bytes], bytes] | None = None,
        slow: Callable[[Delivery], bool] | None = None,
    ) -> None:
        self.provider = provider
        # Asked once: a check of a Protocol costs 40 calls.
        self.takes_many = isinstance(provider, GroupProvider)
        self.group_provider = as_group_provider(provider)
        self.unless = unless
        self._freeze = freeze
        self._sender = sender
        self._compose_duplicate = compose_duplicate
        self._sign = sign
        self.slow = slow if sign is None else (lambda _: True)

    def pack(self, delivery: Delivery, content: Content) -> Packed | Failure:
        """What is sent, and which part of it must be stored with the mark."""
        frozen = content.results.get(FROZEN)
        data: object = frozen
        if frozen is None:
            # What is stored is the mail itself, even if its first attempt may be a duplicate.
            itself = delivery
            if delivery.maybe_duplicate:
                itself = replace(delivery, maybe_duplicate=False)
            data = self._freeze(itself, content)
        if isinstance(data, Failure):
            return data
        if not isinstance(data, bytes):
            raise TypeError(f"a mail was composed as {type(data).__name__}, not as bytes")
        to_store = {FROZEN: data} if frozen is None else {}
        if delivery.maybe_duplicate and self._compose_duplicate is not None:
            composed = self._compose_duplicate(delivery, content)
            if isinstance(composed, Failure):
                return composed
            data = composed
        if self._sign is not None:
            data = self._sign(data)
        envelope = Envelope(
            delivery_id=delivery.id,
            token=provider_token(delivery),
            recipients=delivery.open_addresses,
            data=data,
            sender=self._sender(content) if callable(self._sender) else self._sender,
            metadata=delivery.metadata,
        )
        return Packed(envelope, to_store)


def outcome_of(answer: object) -> Done | Failure:
    """What a provider's answer means; anything that is not an answer leaves the outcome unknown."""
    if isinstance(answer, Accepted):
        return Done(receipt=answer.receipt, refused=answer.refused)
    if isinstance(answer, Failure):
        return answer
    detail = f"the provider answered {type(answer).__name__}, not Accepted or Failure"
    return Failure("provider_error", detail=detail, maybe_sent=True)


def refuse(error_class: str, detail: str) -> Failure:
    """A permanent failure found before any provider was used."""
    return Failure(error_class, "reject", detail=redact(detail))
