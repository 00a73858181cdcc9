"""A message made ready for the wire, once, however often it is tried."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from homing.domain.failure import RECIPIENT_REFUSED, Failure, Refusal
from homing.ports import Envelope
from homing.providers.smtp.features import Features
from homing.providers.smtp.wire import address_problem, dot_stuffed, header_block, wire_content


class Letter(Struct, frozen=True, kw_only=True):
    """Checked addresses and dot-stuffed content: this goes out byte for byte.

    `refused` are recipients that may not be sent to the server at all.
    """

    sender: str
    recipients: tuple[str, ...]
    content: bytes
    size_bytes: int
    eight_bit: bool = False
    utf8_headers: bool = False
    utf8_addresses: bool = False
    refused: dict[str, Refusal] = field(default_factory=dict)

    def commands(self, features: Features, most: int = 0) -> tuple[bytes, ...]:
        """MAIL, a RCPT for each recipient (or the first `most`), DATA: as the server takes them."""
        size = f" SIZE={self.size_bytes}" if features.size else ""
        body = " BODY=8BITMIME" if self.eight_bit and features.eight_bit_mime else ""
        needs_utf8 = self.utf8_headers or self.utf8_addresses
        utf8 = " SMTPUTF8" if needs_utf8 and features.smtputf8 else ""
        mail = f"MAIL FROM:<{self.sender}>{size}{body}{utf8}\r\n"
        first = self.recipients[:most] if most else self.recipients
        recipients = [f"RCPT TO:<{recipient}>\r\n".encode() for recipient in first]
        return (mail.encode(), *recipients, b"DATA\r\n")


def compose(envelope: Envelope, default_sender: str | None) -> Letter | Failure:
    """Everything that can be checked without a server."""
    sender = default_sender if envelope.sender is None else envelope.sender
    if sender is None:
        return Failure("sender_missing", "route_fault", detail="neither message nor URL names one")
    if sender and (problem := _sender_problem(sender)) is not None:
        return Failure("sender_invalid", "reject", detail=f"the sender is {problem}")
    content = wire_content(envelope.data)
    if content is None:
        return Failure("content_invalid", "reject", detail="a NUL or a carriage return alone")
    recipients: list[str] = []
    refused: dict[str, Refusal] = {}
    for recipient in dict.fromkeys(envelope.recipients):
        if (problem := address_problem(recipient)) is None:
            recipients.append(recipient)
        else:
            refused[recipient] = Refusal(permanent=True, detail=problem)
    eight_bit = not content.isascii()
    return _with_recipients(
        Letter(
            sender=sender,
            recipients=tuple(recipients),
            content=dot_stuffed(content),
            size_bytes=len(content),
            eight_bit=eight_bit,
            utf8_headers=eight_bit and not header_block(content).isascii(),
            utf8_addresses=not "".join((sender, *recipients)).isascii(),
            refused=refused,
        )
    )


def fit(letter: Letter, features: Features) -> Letter | Failure:
    """The letter as this server can take it, or why it cannot."""
    if 0 < features.size_limit_bytes < letter.size_bytes:
        detail = f"{letter.size_bytes} bytes; the server takes {features.size_limit_bytes}"
        return Failure("message_too_large", "reject", detail=detail)
    if letter.eight_bit and not features.eight_bit_mime:
        return Failure("eightbit_unsupported", "reject", detail="the server has no 8BITMIME")
    if features.smtputf8 or not (letter.utf8_headers or letter.utf8_addresses):
        return letter
    if letter.utf8_headers or not letter.sender.isascii():
        return Failure("smtputf8_unsupported", "reject", detail=_NO_UTF8.detail or "")
    within = tuple(address for address in letter.recipients if address.isascii())
    beyond = {address: _NO_UTF8 for address in letter.recipients if not address.isascii()}
    fitted = replace(
        letter, recipients=within, utf8_addresses=False, refused=letter.refused | beyond
    )
    return _with_recipients(fitted)


def _with_recipients(letter: Letter) -> Letter | Failure:
    if letter.recipients:
        return letter
    problems = ", ".join(sorted({refusal.detail or "" for refusal in letter.refused.values()}))
    detail = f"no recipient can be sent to: {problems}" if problems else "there are no recipients"
    return Failure(RECIPIENT_REFUSED, "reject", detail=detail, refused=letter.refused)


# Few senders, many mails.
_sender_problem = lru_cache(maxsize=64)(address_problem)
_NO_UTF8 = Refusal(permanent=True, detail="needs SMTPUTF8, which the server does not offer")
