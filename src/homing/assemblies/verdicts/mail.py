"""A verdict as a mail: the stored text exactly as it was received."""

from __future__ import annotations

from collections.abc import Callable

from homing.assemblies.verdicts.verdict import variables_of
from homing.content import addresses, mime
from homing.domain import identity
from homing.domain.delivery import Content, Delivery
from homing.domain.message import Email


def composer(sender: str) -> Callable[[Delivery, Content], bytes]:
    """Message-ID and Date are the delivery's own: every attempt sends the same bytes."""
    address = addresses.parse(sender, "sender")
    domain = address.spec.rpartition("@")[2]

    def compose(delivery: Delivery, content: Content) -> bytes:
        variables = variables_of(content.payload)
        email = Email(
            to=delivery.open_addresses,
            subject=f"Your {variables['tier']} verdict",
            text=variables["verdict"],
        )
        return mime.build(
            email,
            message_id=identity.message_id(delivery, domain),
            date_ms=delivery.created_at_ms,
            sender=str(address),
        )

    return compose
