"""What to do about an error, by its class: the next step for a person who sees it first."""

from __future__ import annotations

from msgspec.structs import replace

from homing.ports import Finding

LOGIN = (
    "The server does not accept the user name or password. Correct them in the setting"
    " `provider` (`HOMING_PROVIDER`), restart the process, and check the provider."
)
TLS = (
    "The connection could not be secured. Check the server's certificate and the options"
    " `tls` and `ca_file` of the setting `provider`."
)
SENDER = (
    "The server does not accept our sender. Check the setting `sender`, and SPF and DKIM of its"
    " domain."
)
REPUTATION = (
    "The server does not talk to our address. Ask its operator, or check whether our address is"
    " on a block list."
)
OTHER_SIDE = "Check the provider. When it answers again, replay them."

ADVICE = {
    "auth_failed": LOGIN,
    "auth_unavailable": LOGIN,
    "starttls_missing": TLS,
    "tls_failed": TLS,
    "sender_refused": SENDER,
    "sender_unauthenticated": SENDER,
    "connect_refused": REPUTATION,
    "client_blocked": REPUTATION,
    "relay_denied": "The server does not relay our mail: it requires a login, or our address on"
    " its list.",
    "rate_limited": "We send more than the server accepts. The route continues by itself; lower its"
    " `concurrency` if this lasts.",
    "connect_failed": OTHER_SIDE,
    "connection_lost": OTHER_SIDE,
    "timed_out": OTHER_SIDE,
    "deferred": OTHER_SIDE,
    "recipient_deferred": "The recipient's server was busy for longer than all attempts took."
    " Replay them.",
    "recipient_refused": "The address does not exist, or accepts no mail. Amend those that are"
    " misspelt, and dismiss the others.",
    "mailbox_full": "The mailbox is full. Replay them later, or dismiss them.",
    "message_too_large": "The mail is larger than the server accepts. Amend it, or dismiss it.",
    "content_refused": "The server considers the content spam or forbidden. Amend it, or dismiss"
    " it.",
    "store_damaged": "Their records in the store were damaged. Check the attempts of each:"
    " confirm those that arrived, and send the others again.",
    "answer_lost": "The server may have accepted them. Look for the mail there: confirm those that"
    " arrived, and send the others again.",
}


# The messages were not at fault: once the cause is fixed, they can all be sent.
FIXED_ELSEWHERE = frozenset(
    error_class
    for error_class, text in ADVICE.items()
    if text in (LOGIN, TLS, SENDER, REPUTATION, OTHER_SIDE)
)


# What a person must change; the other side may also recover by itself.
_SETUP_AT_FAULT = frozenset(
    error_class
    for error_class in (*FIXED_ELSEWHERE, "relay_denied")
    if ADVICE[error_class] != OTHER_SIDE
)


def advice(error_class: str | None) -> str | None:
    return ADVICE.get(error_class or "")


def setup_advice(error_class: str | None) -> str | None:
    """What to change in settings or at the server, if the error says that nothing else helps."""
    return advice(error_class) if error_class in _SETUP_AT_FAULT else None


def with_advice(finding: Finding) -> Finding:
    """What a provider says of itself begins with the class of its error."""
    error_class, colon, _ = finding.detail.partition(":")
    step = setup_advice(error_class) if colon and finding.verdict == "bad" else None
    return finding if step is None else replace(finding, detail=f"{finding.detail}. {step}")
