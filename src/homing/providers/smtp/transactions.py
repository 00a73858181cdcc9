"""More recipients than a server takes at once: one outcome from several transactions."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from homing.domain.delivery import Receipt
from homing.domain.failure import Failure, Refusal
from homing.ports import Accepted
from homing.providers.smtp.exchange import Exchange
from homing.providers.smtp.replies import Reply

_ONE_TOO_MANY = frozenset({452, 552})


def postponed(exchange: Exchange, recipients: Sequence[str]) -> tuple[str, ...]:
    """Recipients that the server takes in a further transaction (RFC 5321, 4.5.3.1.10).

    Only behind one that it has accepted, so that every transaction leaves fewer.
    """
    replies = exchange.recipient_replies
    first = next((position for position, reply in enumerate(replies) if reply.kind == 2), None)
    if first is None:
        return ()
    behind = zip(recipients[first:], replies[first:], strict=False)
    return tuple(recipient for recipient, reply in behind if _is_one_too_many(reply))


def _is_one_too_many(reply: Reply) -> bool:
    if (enhanced := reply.enhanced) is not None:
        return enhanced[1:] == ".5.3"
    return reply.code in _ONE_TOO_MANY


class Transactions:
    """The transactions of one letter, as far as they have ended."""

    def __init__(self) -> None:
        self._receipts: list[Receipt] = []
        self._refused: dict[str, Refusal] = {}

    @property
    def accepted_some(self) -> bool:
        return bool(self._receipts)

    def add(self, outcome: Accepted | Failure, left: Sequence[str] = ()) -> None:
        """One has ended. Refusals of those that are `left` for another are not final."""
        if isinstance(outcome, Accepted):
            self._receipts.append(outcome.receipt)
        self._refused |= {
            recipient: refusal
            for recipient, refusal in outcome.refused.items()
            if recipient not in left
        }

    def conclude(self, last: Accepted | Failure, untold: Sequence[str]) -> Accepted | Failure:
        """The outcome of them all; `untold` have no answer of their own in the last one."""
        self.add(last)
        if isinstance(last, Failure):
            if not self._receipts:
                return replace(last, refused=self._refused)
            # Not permanent: none of them was asked about alone.
            deferred = Refusal(
                permanent=False, code=last.code, detail=last.detail, maybe_sent=last.maybe_sent
            )
            self._refused |= dict.fromkeys(untold, deferred)
        return Accepted(_joined(self._receipts), self._refused)


def _joined(receipts: Sequence[Receipt]) -> Receipt:
    first, *others = receipts
    names = [other.notification_id for other in others if other.notification_id]
    return replace(first, detail=f"also {', '.join(names)}") if names else first
