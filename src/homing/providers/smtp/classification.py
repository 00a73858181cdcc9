"""What an answer, a timeout or a lost connection means for a delivery, by the table of rules."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from homing.domain.delivery import Receipt
from homing.domain.failure import Disposition, Failure, Refusal
from homing.domain.known_secrets import without_known_secrets
from homing.domain.redaction import redact
from homing.ports import Accepted
from homing.providers.smtp.exchange import Awaiting, Cause, Exchange, Phase
from homing.providers.smtp.protocol import SERVICE_CLOSING
from homing.providers.smtp.replies import Reply
from homing.providers.smtp.rules import RELAY_DENIED, RULES, UNHEARD_OF, Rule, own_words

Heard: TypeAlias = Cause | Literal["missing", "unreachable", "untrusted"] | Reply


def failure(phase: Phase, heard: Heard, detail: str = "") -> Failure:
    """The failure that this phase ends with when this was heard."""
    rule = rule_for(phase, heard)
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


def rule_for(phase: Phase, heard: Heard) -> Rule:
    if isinstance(heard, Reply):
        words = (str(heard.code), f"{heard.kind}xx")
        enhanced = heard.enhanced or ""
        # RFC 3463: X.1 is about an address, whatever its words are. Addresses are left out of the
        # words, because a recipient could be named like a rule.
        text = "" if enhanced[1:4] == ".1." else own_words(redact(heard.text))
    else:
        words, enhanced, text = (heard, heard), "", ""
    fitting = (rule for rule in RULES if rule.fits(phase, words, enhanced, text))
    return next(fitting, UNHEARD_OF)


def _refusals(exchange: Exchange, recipients: tuple[str, ...]) -> dict[str, Refusal]:
    # Where the sender was refused, the answers to RCPT only say that there was no sender.
    if exchange.all_accepted or not exchange.replies or exchange.replies[0].kind != 2:
        return {}
    return {
        recipient: Refusal(
            permanent=_is_final(rule_for("rcpt", reply), reply, exchange),
            code=str(reply.code),
            detail=redact(reply.text),
        )
        for recipient, reply in zip(recipients, exchange.recipient_replies, strict=False)
        if reply.kind != 2 and reply.code != SERVICE_CLOSING
    }


def _is_final(rule: Rule, reply: Reply, exchange: Exchange) -> bool:
    """A relay that takes other recipients of the same message denies this one for good."""
    denied = rule.error_class == RELAY_DENIED and reply.kind == 5 and exchange.deliverable
    return denied or rule.disposition == "reject"


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
            return Receipt(without_known_secrets(found[1]))
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
