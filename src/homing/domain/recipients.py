"""What an answer of the provider means for each recipient of an envelope."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from homing.domain.delivery import Recipient, RecipientOutcome
from homing.domain.failure import RECIPIENT_DEFERRED, RECIPIENT_REFUSED, Failure, Refusal

Recipients = tuple[Recipient, ...]


def accept_open(recipients: Recipients, refused: Mapping[str, Refusal]) -> Recipients:
    """The provider accepted the message: for every open recipient, except those it refused."""
    answered: list[Recipient] = []
    for recipient in recipients:
        refusal = refused.get(recipient.address)
        if recipient.outcome in ("open", "maybe") and refusal is None:
            answered.append(Recipient(recipient.address, "accepted"))
        else:
            answered.append(_refuse(recipient, refusal))
    return tuple(answered)


def note_refusals(recipients: Recipients, refused: Mapping[str, Refusal]) -> Recipients:
    """The message was not accepted, but some recipients have a final answer."""
    return tuple(_refuse(r, refused.get(r.address)) for r in recipients)


def left_to_try(recipients: Recipients, refused: Mapping[str, Refusal]) -> bool:
    """Whether a recipient that does not have it yet was only deferred."""
    return bool(refused) and any(
        r.outcome in ("open", "maybe") and not refused[r.address].permanent
        for r in recipients
        if r.address in refused
    )


def put_in_doubt(recipients: Recipients) -> Recipients:
    return tuple(replace(r, outcome="maybe") if r.outcome == "open" else r for r in recipients)


def dispel_doubt(recipients: Recipients) -> Recipients:
    return tuple(replace(r, outcome="open") if r.outcome == "maybe" else r for r in recipients)


def reopen_refused(recipients: Recipients) -> Recipients:
    """A replay tries the refused ones again; those that have accepted are left alone."""
    return tuple(Recipient(r.address) if r.outcome == "refused" else r for r in recipients)


def summary(recipients: Recipients, *, permanent: bool) -> Failure:
    """One failure for all refusals; it counts addresses and names none."""
    missed = [r for r in recipients if r.outcome != "accepted"]
    example = next((r for r in missed if r.code), None)
    return Failure(
        RECIPIENT_REFUSED if permanent else RECIPIENT_DEFERRED,
        "reject" if permanent else "retry",
        code=example.code if example else None,
        detail=f"{len(missed)} recipient(s) {'refused' if permanent else 'deferred'}",
    )


def _refuse(recipient: Recipient, refusal: Refusal | None) -> Recipient:
    """One that has accepted stays so; one that may have it is never marked as refused."""
    if refusal is None or recipient.outcome not in ("open", "maybe"):
        return recipient
    refused_for_good = refusal.permanent and recipient.outcome == "open"
    outcome: RecipientOutcome = "refused" if refused_for_good else recipient.outcome
    return replace(recipient, outcome=outcome, code=refusal.code, detail=refusal.detail)
