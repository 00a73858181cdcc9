"""What happens to the single recipients of an envelope when an answer comes in."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from homing.domain.delivery import Recipient
from homing.domain.failure import RECIPIENT_DEFERRED, RECIPIENT_REFUSED, Failure, Refusal

Recipients = tuple[Recipient, ...]


def accept_open(recipients: Recipients, refused: Mapping[str, Refusal]) -> Recipients:
    """The provider took the message: every open one has it, but for those refused apart."""
    answered: list[Recipient] = []
    for recipient in recipients:
        if recipient.outcome not in ("open", "maybe"):
            answered.append(recipient)
        elif (refusal := refused.get(recipient.address)) is not None:
            answered.append(_refuse(replace(recipient, outcome="open"), refusal))
        else:
            answered.append(Recipient(recipient.address, "accepted"))
    return tuple(answered)


def note_refusals(recipients: Recipients, refused: Mapping[str, Refusal]) -> Recipients:
    """The message was not taken, but some recipients were answered for good."""
    return tuple(_refuse(r, refused[r.address]) if r.address in refused else r for r in recipients)


def put_in_doubt(recipients: Recipients) -> Recipients:
    return tuple(replace(r, outcome="maybe") if r.outcome == "open" else r for r in recipients)


def dispel_doubt(recipients: Recipients) -> Recipients:
    return tuple(replace(r, outcome="open") if r.outcome == "maybe" else r for r in recipients)


def reopen_refused(recipients: Recipients) -> Recipients:
    """A replay tries the refused ones again; whoever has it already is left alone."""
    return tuple(Recipient(r.address) if r.outcome == "refused" else r for r in recipients)


def summary(refused: Mapping[str, Refusal], *, permanent: bool) -> Failure:
    """One failure that stands for the refusals; it counts addresses and names none."""
    matching = [refusal for refusal in refused.values() if refusal.permanent is permanent]
    example = matching[0] if matching else None
    return Failure(
        RECIPIENT_REFUSED if permanent else RECIPIENT_DEFERRED,
        "reject" if permanent else "retry",
        code=example.code if example else None,
        detail=f"{len(matching)} recipient(s) {'refused' if permanent else 'put off'}",
    )


def _refuse(recipient: Recipient, refusal: Refusal) -> Recipient:
    outcome = "refused" if refusal.permanent else recipient.outcome
    return replace(recipient, outcome=outcome, code=refusal.code, detail=refusal.detail)
