"""Whom an answer blames: the message, a recipient or the route. A table, read from the top.

A reply code alone does not tell. `550` at RCPT is an unknown mailbox, a relay that wants a login,
or a block list that names our address. The enhanced code (RFC 3463) and the phase decide; words
decide only where servers use one code for two meanings.
"""

from __future__ import annotations

import re

from msgspec import Struct

from homing.domain.failure import (
    RATE_LIMITED,
    RECIPIENT_DEFERRED,
    RECIPIENT_REFUSED,
    TIMED_OUT,
    Disposition,
)
from homing.providers.smtp.exchange import Phase

SENDER_REFUSED = "sender_refused"
RELAY_DENIED = "relay_denied"


class Rule(Struct, frozen=True):
    """`heard` holds codes, `4xx`, `5xx`, or what was heard instead of a reply.

    `enhanced` holds whole codes, or their beginnings if they end with a dot.
    """

    phases: tuple[Phase, ...]
    heard: tuple[str, ...]
    error_class: str
    disposition: Disposition
    enhanced: tuple[str, ...] = ()
    says: re.Pattern[str] | None = None

    def fits(self, phase: Phase, words: tuple[str, str], enhanced: str, text: str) -> bool:
        return (
            phase in self.phases
            and (words[0] in self.heard or words[1] in self.heard)
            and (not self.enhanced or any(_matches(enhanced, code) for code in self.enhanced))
            and (self.says is None or self.says.search(text) is not None)
        )


def own_words(text: str) -> str:
    """What the server says itself, up to where it repeats another server's answer."""
    quoted = _QUOTED.search(text)
    return text if quoted is None else text[: quoted.start()]


def _matches(enhanced: str, code: str) -> bool:
    return enhanced.startswith(code) if code.endswith(".") else enhanced == code


def _words(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE)


# Every pattern here needs two words, or a sign that no mailbox name has: some servers repeat the
# local part of a recipient, and no recipient may stop a route by the choice of a name.
_TOO_FAST = _words(
    r"\b(?:rate|relay|sending|sender|submission|connections?) (?:limit|quota|rate)",
    r"\b(?:daily|hourly|monthly) (?:\w+ ){0,4}(?:limit|quota)",
    r"\b(?:messages|mails|emails|recipients) per (?:second|minute|hour|day)\b",
    r"\btoo (?:many|much) (?:\w+ ){0,2}(?:e-?)?(?:mails?|messages|connections|logins?)\b",
    r"\btoo many recipients from\b",  # Postfix, per client and minute
    r"\bthrottling (?:failure|limit)",
    r"\bslow down\b",
    r"Exception:SubmissionQuota",
)
_RELAY = _words(
    r"\brelay(?:ing)? (?:access )?(?:denied|prohibited|refused|not (?:permitted|allowed))",
    r"\b(?:unable to|not (?:permitted|allowed) to|do not|cannot|will not) relay\b",
)
_BLOCK_LIST = _words(
    r"\b(?:in|on|by|our|your|the|a|local) (?:block|black|deny)[ -]?list",
    r"\bblocked (?:using|by)\b",
    r"\blisted (?:at|by|in|on)\b",
)
# At the content, a block list may name a link in it; so there our address has to be named.
_OUR_HOST = _words(
    r"\b(?:client host|helo command|your (?:ip|host|server|network)|ip address)\b.{0,80} "
    r"(?:rejected|refused|blocked|listed|banned|denied)",
)
_OUR_SENDER = _words(
    r"\bsender address rejected\b",  # Postfix checks the sender when it answers RCPT
    r"\bnot owned by\b",
    r"\bnot (?:allowed|authori[sz]ed|permitted) to send\b",
    r"\bsend as\b",
    r"Exception:SendAsDenied",
)
# What another server said, in the words of ours: not about us.
_QUOTED = _words(r"\bsaid:", r"\bresponse:", r"\bcallout\b")
# Microsoft 365: daily recipients, tenant limits.
_MICROSOFT_LIMITS = ("5.1.90", "5.7.232", "5.7.233", "5.7.236")
# Microsoft 365: a mailbox or tenant that was stopped because of abuse.
_MICROSOFT_BLOCKS = ("5.7.501", "5.7.502", "5.7.503", "5.7.705", "5.7.708", "5.7.750")
# RFC 7372 and kin: DKIM, SPF, reverse DNS, several of them.
_UNAUTHENTICATED = ("5.7.20", "5.7.21", "5.7.22", "5.7.23", "5.7.24", "5.7.25", "5.7.26", "5.7.27")

_ANY: tuple[Phase, ...] = ("connect", "tls", "auth", "mail", "rcpt", "data", "dot")
_SENDING: tuple[Phase, ...] = ("mail", "rcpt", "data", "dot")
_CONTENT: tuple[Phase, ...] = ("data", "dot")
_REFUSAL = ("4xx", "5xx")

# The first rule that fits decides.
RULES: tuple[Rule, ...] = (
    Rule(("connect",), ("unreachable",), "connect_failed", "retry"),
    Rule(("connect",), ("untrusted",), "tls_failed", "route_fault"),
    Rule(("tls",), ("missing",), "starttls_missing", "route_fault"),
    # RFC 3207: TLS is not available for a temporary reason.
    Rule(("tls",), ("4xx",), "deferred", "retry"),
    Rule(("tls",), ("untrusted", "garbled", "2xx", "3xx", "5xx"), "tls_failed", "route_fault"),
    Rule(("auth",), ("missing",), "auth_unavailable", "route_fault"),
    Rule(("auth",), ("untrusted",), "auth_failed", "route_fault"),
    Rule(("auth",), ("unreachable",), "token_unavailable", "retry"),
    Rule(_ANY, ("timeout",), TIMED_OUT, "retry"),
    Rule(_ANY, ("cut",), "connection_lost", "retry"),
    Rule(_ANY, ("garbled",), "protocol_error", "retry"),
    # RFC 4954: the account's password has to be changed.
    Rule(_ANY, ("432",), "auth_failed", "route_fault", enhanced=("4.7.12",)),
    Rule(_ANY, ("530", "534", "535", "538"), "auth_failed", "route_fault"),
    Rule(("auth",), ("5xx",), "auth_failed", "route_fault"),
    # How fast or how much we send. RFC 3463: X.4.5 is congestion; X.7.28 is a flood of mail.
    Rule(_ANY, _REFUSAL, RATE_LIMITED, "route_fault", says=_TOO_FAST),
    Rule(_ANY, ("432",), RATE_LIMITED, "route_fault"),
    Rule(_ANY, ("421",), RATE_LIMITED, "route_fault", enhanced=("4.7.",)),
    Rule(_ANY, _REFUSAL, RATE_LIMITED, "route_fault", enhanced=("4.7.28", "5.7.28", "5.4.5")),
    Rule(_SENDING, ("5xx",), RATE_LIMITED, "route_fault", enhanced=_MICROSOFT_LIMITS),
    Rule(("mail",), ("450", "451", "452"), RATE_LIMITED, "route_fault", enhanced=("4.7.",)),
    # Who we are: our address, our name, our sender, our right to relay.
    Rule(("connect",), ("5xx",), "connect_refused", "route_fault"),
    Rule(("rcpt",), _REFUSAL, RELAY_DENIED, "route_fault", says=_RELAY),
    Rule(("rcpt",), ("5xx",), RELAY_DENIED, "route_fault", enhanced=("5.7.54",)),
    Rule(("rcpt",), ("454",), RELAY_DENIED, "route_fault", enhanced=("4.7.",)),
    Rule(("mail", "rcpt"), ("5xx",), "client_blocked", "route_fault", says=_BLOCK_LIST),
    Rule(_SENDING, ("5xx",), "client_blocked", "route_fault", says=_OUR_HOST),
    Rule(_SENDING, ("5xx",), "client_blocked", "route_fault", enhanced=_MICROSOFT_BLOCKS),
    Rule(_SENDING, ("5xx",), "sender_unauthenticated", "route_fault", enhanced=_UNAUTHENTICATED),
    Rule(_SENDING, ("5xx",), SENDER_REFUSED, "route_fault", says=_OUR_SENDER),
    Rule(
        ("rcpt", "data", "dot"),
        ("5xx",),
        SENDER_REFUSED,
        "route_fault",
        enhanced=("5.1.7", "5.1.8", "5.2.252", "5.7.60"),
    ),
    Rule(_ANY, ("421",), "deferred", "retry"),
    # The message.
    Rule(_SENDING, ("5xx",), "message_too_large", "reject", enhanced=("5.3.4", "5.2.3")),
    # A recipient. RFC 5321, 4.5.3.1.10: 552 at RCPT says "too many recipients", as X.5.3 does.
    Rule(("rcpt",), ("5xx",), RECIPIENT_DEFERRED, "retry", enhanced=("5.5.3",)),
    Rule(("rcpt",), ("552",), RECIPIENT_REFUSED, "reject", enhanced=("5.2.",)),
    Rule(("rcpt",), ("552",), RECIPIENT_DEFERRED, "retry"),
    Rule(("rcpt",), ("4xx",), RECIPIENT_DEFERRED, "retry"),
    Rule(("rcpt",), ("5xx",), RECIPIENT_REFUSED, "reject"),
    # Greylisting after the content, which comes with the codes of a rate limit.
    Rule(_CONTENT, ("450", "451"), RATE_LIMITED, "retry", enhanced=("4.7.",)),
    Rule(_ANY, ("4xx",), "deferred", "retry"),
    # At MAIL no recipient is named yet: the mailbox that is full or disabled is our own.
    Rule(("mail",), ("5xx",), SENDER_REFUSED, "route_fault", enhanced=("5.2.",)),
    Rule(_CONTENT, ("552",), "mailbox_full", "reject", enhanced=("5.2.",)),
    Rule(("mail", "data", "dot"), ("552",), "message_too_large", "reject"),
    # MAIL names the sender, the size and the encoding: what is not about the last two is about us.
    Rule(("mail",), ("5xx",), "content_refused", "reject", enhanced=("5.6.",)),
    Rule(("mail",), ("555",), "content_refused", "reject"),
    Rule(("mail",), ("5xx",), SENDER_REFUSED, "route_fault"),
    Rule(_CONTENT, ("5xx",), "content_refused", "reject"),
)
UNHEARD_OF = Rule(_ANY, (), "protocol_error", "retry")
