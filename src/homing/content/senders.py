"""The allowed senders of a route: its own address, and further ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from homing.content.addresses import Address, parse
from homing.content.headers import SENDER
from homing.domain.delivery import Content
from homing.domain.errors import InvalidRequest
from homing.domain.message import Email, decode_message


class Senders:
    """`others` are addresses, or `@example.org` for all addresses of a domain."""

    def __init__(self, own: str, others: Sequence[str] = ()) -> None:
        self.own = parse(own, "sender")
        self._allowed = {self.own.spec}
        for index, other in enumerate(others):
            field = f"allowed_senders[{index}]"
            if other.startswith("@"):
                self._allowed.add(f"@{parse(f'postmaster{other}', field).domain}")
            else:
                self._allowed.add(parse(other, field).spec)
        self.envelope_sender: str | Callable[[Content], str] = (
            self._envelope_sender_of if others else self.own.spec
        )

    def checked(self, email: Email) -> Email:
        """A validated e-mail, if it may come from where it says; a Sender is bound like a From."""
        if SENDER in email.headers:
            self._check(email.headers[SENDER], f"headers.{SENDER}")
        if email.sender is None:
            return email
        address = self._check(email.sender, "from")
        says_nothing = address in (self.own, Address(self.own.spec))
        return replace(email, sender=None) if says_nothing else email

    def sender_of(self, email: Email) -> Address:
        """The From that this e-mail gets."""
        return parse(email.sender, "from") if email.sender else self.own

    def _envelope_sender_of(self, content: Content) -> str:
        """Where failures are reported to: the Sender, who is responsible, else the author."""
        email = decode_message(content.payload)
        if not isinstance(email, Email):
            return self.own.spec
        agent = email.headers.get(SENDER)
        return parse(agent).spec if agent else self.sender_of(email).spec

    def _check(self, wish: str, field: str) -> Address:
        address = parse(wish, field)
        if not self._allowed.intersection((address.spec, f"@{address.domain}")):
            among = ", ".join(sorted(self._allowed))
            raise InvalidRequest(
                field,
                f"is not one that this route may send as: {among};"
                " the setting `allowed_senders` can allow others",
            )
        return address
