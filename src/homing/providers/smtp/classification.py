"""What an answer, a timeout or a lost connection means for a delivery: see the table at the end."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from homing.domain.delivery import Receipt
from homing.domain.failure import (
    RATE_LIMITED,
    RECIPIENT_DEFERRED,
    RECIPIENT_REFUSED,
    TIMED_OUT,
    Disposition,
    Failure,
    Refusal,
)
from homing.domain.redaction import redact
from homing.ports import Accepted
from homing.providers.smtp.exchange import Awaiting, Cause, Exchange, Phase
from homing.providers.smtp.protocol import SERVICE_CLOSING
from homing.providers.smtp.replies import Reply

Heard: TypeAlias = Cause | Literal["missing", "unreachable", "untrusted"] | Reply


class Rule(Struct, frozen=True):
    """`heard` is a code, `4xx`, `5xx`, or what was heard instead of a reply."""

    phases: tuple[Phase, ...]
    heard: tuple[str, ...]
    error_class: str
    disposition: Disposition
    enhanced: str = ""

    def fits(self, phase: Phase, words: tuple[str, str], enhanced: str) -> bool:
        return (
            phase in self.phases
            and any(word in self.heard for word in words)
            and enhanced.startswith(self.enhanced)
        )


def failure(phase: Phase, heard: Heard, detail: str = "") -> Failure:
    """The failure that this phase ends with when this was heard."""
    rule = _rule(phase, heard)
    if isinstance(heard, Reply):
        return Failure(
            rule.error_class,
            rule.disposition,
            code=str(heard.code),
            detail=redact(heard.text),
        )
    return Failure(
        rule.error_class, rule.disposition, detail=redact(detail or _SAID[heard].format(phase))
    )


def judge(exchange: Exchange, recipients: tuple[str, ...]) -> Accepted | Failure:
    """The outcome of an ended exchange. Every recipient is in it exactly once."""
    refused = _refusals(exchange, recipients)
    if not exchange.dot_out or exchange.lost is not None:
        return _unsent(exchange, recipients, refused)
    answer = exchange.replies[-1]
    if answer.kind == 2:
        return Accepted(_receipt(answer), refused)
    return _with(failure("dot", answer), refused)


def _unsent(
    exchange: Exchange, recipients: tuple[str, ...], refused: dict[str, Refusal]
) -> Failure:
    """It ended before an answer to the whole message."""
    replies, awaiting = exchange.replies, exchange.awaiting
    # A clear refusal counts, even when the server closed the connection after it.
    if replies and replies[0].kind != 2:
        return failure("mail", replies[0])
    if len(refused) == len(recipients):
        return _all_refused(exchange, refused)
    if exchange.lost is not None:
        lost = failure(_PHASE[awaiting], exchange.lost)
        return _with(lost, refused, maybe_sent=exchange.dot_out)
    if awaiting == "drain" and replies[-1].kind == 2:
        # It answered before the end of the content: what it has accepted is unknown.
        return _with(failure("dot", "garbled"), refused, maybe_sent=True)
    return _with(failure(_PHASE[awaiting], replies[-1]), refused)


def _rule(phase: Phase, heard: Heard) -> Rule:
    if isinstance(heard, Reply):
        words = (str(heard.code), f"{heard.kind}xx")
        enhanced = heard.enhanced or ""
    else:
        words, enhanced = (heard, heard), ""
    return next((rule for rule in RULES if rule.fits(phase, words, enhanced)), _UNHEARD_OF)


def _refusals(exchange: Exchange, recipients: tuple[str, ...]) -> dict[str, Refusal]:
    # Where the sender was refused, the answers to RCPT only say that there was no sender.
    if exchange.all_accepted or not exchange.replies or exchange.replies[0].kind != 2:
        return {}
    return {
        recipient: Refusal(
            permanent=_rule("rcpt", reply).disposition == "reject",
            code=str(reply.code),
            detail=redact(reply.text),
        )
        for recipient, reply in zip(recipients, exchange.recipient_replies, strict=False)
        if reply.kind != 2 and reply.code != SERVICE_CLOSING
    }


def _all_refused(exchange: Exchange, refused: dict[str, Refusal]) -> Failure:
    """Every recipient was refused: the mildest of their answers counts for the message."""
    failures = [failure("rcpt", reply) for reply in exchange.recipient_replies]
    mildest = min(failures, key=lambda each: _MILDEST_FIRST.index(each.disposition))
    if mildest.disposition == "route_fault":
        return mildest  # not theirs: they stay open, and none is named
    return _with(mildest, refused)


def _with(outcome: Failure, refused: dict[str, Refusal], *, maybe_sent: bool = False) -> Failure:
    return Failure(
        outcome.error_class,
        outcome.disposition,
        code=outcome.code,
        detail=outcome.detail,
        maybe_sent=maybe_sent,
        refused=refused,
    )


def _receipt(reply: Reply) -> Receipt:
    """The name under which the server queued it; its own words where it gave no name."""
    text = reply.text
    for words, pattern in _QUEUE_IDS:
        if words in text and (found := pattern.search(text)) is not None:
            return Receipt(found[1])
    return Receipt(detail=_redacted(text))


# A server that gives no names says the same to every message.
_redacted = lru_cache(maxsize=64)(redact)

_PHASE: dict[Awaiting, Phase] = {
    "mail": "mail",
    "rcpt": "rcpt",
    "data": "data",
    "drain": "data",
    "dot": "dot",
    "void": "data",
    "rset": "mail",
}
_SAID: dict[str, str] = {
    "timeout": "no answer in time, phase {}",
    "cut": "the connection was lost, phase {}",
    "garbled": "the server broke the protocol, phase {}",
    "missing": "the server does not offer it, phase {}",
    "unreachable": "no connection, phase {}",
    "untrusted": "the connection cannot be trusted, phase {}",
}
_MILDEST_FIRST: tuple[Disposition, ...] = ("route_fault", "retry", "suppress", "reject")
# How servers name what they have queued: Postfix, Exim, OpenSMTPD and Sendmail.
_QUEUE_IDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("queued as ", re.compile(r"queued as ([\w.-]{1,64})")),
    ("id=", re.compile(r"\bid=([\w.-]{1,64})")),
    (" Message accepted", re.compile(r"([\w.-]{1,64}) Message accepted for delivery")),
)

_ANY: tuple[Phase, ...] = ("connect", "tls", "auth", "mail", "rcpt", "data", "dot")
_ANY_REPLY = ("2xx", "3xx", "4xx", "5xx")
_LOGIN_WANTED = ("530", "534", "535", "538")
_UNHEARD_OF = Rule(_ANY, (), "protocol_error", "retry")

# The first rule that fits decides.
RULES: tuple[Rule, ...] = (
    Rule(("connect",), ("unreachable",), "connect_failed", "retry"),
    Rule(("connect",), ("untrusted",), "tls_failed", "route_fault"),
    Rule(("tls",), ("missing",), "starttls_missing", "route_fault"),
    Rule(("tls",), ("untrusted", "garbled", *_ANY_REPLY), "tls_failed", "route_fault"),
    Rule(("auth",), ("missing",), "auth_unavailable", "route_fault"),
    Rule(_ANY, ("timeout",), TIMED_OUT, "retry"),
    Rule(_ANY, ("cut",), "connection_lost", "retry"),
    Rule(_ANY, ("garbled",), "protocol_error", "retry"),
    Rule(_ANY, _LOGIN_WANTED, "auth_failed", "route_fault"),
    Rule(("auth",), ("5xx",), "auth_failed", "route_fault"),
    Rule(("connect",), ("5xx",), "connect_refused", "route_fault"),
    Rule(_ANY, ("421", "450", "451"), RATE_LIMITED, "retry", enhanced="4.7."),
    Rule(_ANY, ("421",), "deferred", "retry"),
    # RFC 5321, 4.5.3.1.10: at RCPT it says "too many recipients"; the rest may come later.
    Rule(("rcpt",), ("552",), RECIPIENT_DEFERRED, "retry"),
    Rule(("rcpt",), ("4xx",), RECIPIENT_DEFERRED, "retry"),
    Rule(("rcpt",), ("5xx",), RECIPIENT_REFUSED, "reject"),
    Rule(_ANY, ("4xx",), "deferred", "retry"),
    Rule(("data", "dot"), ("552",), "mailbox_full", "reject", enhanced="5.2."),
    Rule(("mail", "data", "dot"), ("552",), "message_too_large", "reject"),
    Rule(("mail", "data", "dot"), ("5xx",), "message_too_large", "reject", enhanced="5.3.4"),
    Rule(("mail",), ("5xx",), "sender_refused", "reject"),
    Rule(("data", "dot"), ("5xx",), "content_refused", "reject"),
)
