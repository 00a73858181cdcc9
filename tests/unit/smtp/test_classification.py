"""The table, row by row, as an operator would read it."""

import pytest

from homing.domain.failure import Disposition
from homing.providers.smtp.classification import Heard, failure, rule_for
from homing.providers.smtp.exchange import Phase
from homing.providers.smtp.replies import Reply, ReplyParser
from homing.providers.smtp.rules import RULES


def reply(text: str) -> Reply:
    (found,) = ReplyParser().feed(text.encode() + b"\r\n")
    return found


# What real servers say (Postfix, Exim, Exchange, Gmail, SES, Microsoft 365), and what it means.
ANSWERS: tuple[tuple[Phase, str, str, Disposition], ...] = (
    ("connect", "unreachable", "connect_failed", "retry"),
    ("connect", "untrusted", "tls_failed", "route_fault"),
    ("connect", "timeout", "timed_out", "retry"),
    ("connect", "cut", "connection_lost", "retry"),
    ("connect", "garbled", "protocol_error", "retry"),
    ("connect", "421 4.7.0 mx.test too many connections", "rate_limited", "route_fault"),
    ("connect", "421 Too many concurrent SMTP connections", "rate_limited", "route_fault"),
    ("connect", "421 4.3.2 shutting down", "deferred", "retry"),
    ("connect", "554 5.7.1 your address is blocked", "connect_refused", "route_fault"),
    ("tls", "missing", "starttls_missing", "route_fault"),
    ("tls", "untrusted", "tls_failed", "route_fault"),
    ("tls", "454 4.7.0 TLS not available due to local problem", "deferred", "retry"),
    ("tls", "421 4.3.2 shutting down", "deferred", "retry"),
    ("tls", "421 4.7.0 too many new TLS sessions from you", "deferred", "retry"),
    ("tls", "502 5.5.1 not implemented", "tls_failed", "route_fault"),
    ("tls", "timeout", "timed_out", "retry"),
    ("tls", "cut", "connection_lost", "retry"),
    ("auth", "missing", "auth_unavailable", "route_fault"),
    ("auth", "untrusted", "auth_failed", "route_fault"),
    ("auth", "unreachable", "token_unavailable", "retry"),
    ("auth", "535 5.7.8 bad", "auth_failed", "route_fault"),
    ("auth", "504 5.5.4 unknown mechanism", "auth_failed", "route_fault"),
    ("auth", "432 4.7.12 A password transition is needed", "auth_failed", "route_fault"),
    ("auth", "432 4.3.2 Concurrent connections limit exceeded", "rate_limited", "route_fault"),
    ("dot", "432 4.3.2 STOREDRV; sender thread limit exceeded", "rate_limited", "route_fault"),
    ("auth", "454 4.7.0 Too many login attempts, try later", "rate_limited", "route_fault"),
    ("auth", "454 4.7.0 Temporary authentication failure", "deferred", "retry"),
    ("auth", "421 4.7.0 not now", "rate_limited", "route_fault"),
    ("auth", "timeout", "timed_out", "retry"),
    ("mail", "530 5.7.0 authentication required", "auth_failed", "route_fault"),
    ("mail", "550 5.7.1 not your address", "sender_refused", "route_fault"),
    ("mail", "553 not you", "sender_refused", "route_fault"),
    ("mail", "501 5.1.7 bad sender address syntax", "sender_refused", "route_fault"),
    ("mail", "550 5.7.1 Your IP is listed in our block list", "client_blocked", "route_fault"),
    ("mail", "550 5.4.5 Daily user sending limit exceeded", "rate_limited", "route_fault"),
    ("mail", "452 4.7.1 wait", "rate_limited", "route_fault"),
    ("mail", "450 4.7.1 Error: too much mail from 192.0.2.1", "rate_limited", "route_fault"),
    ("mail", "552 5.2.2 over quota", "sender_refused", "route_fault"),
    ("mail", "450 4.2.1 Peak SMTP relay limit exceeded", "rate_limited", "route_fault"),
    ("mail", "552 5.3.4 too big", "message_too_large", "reject"),
    ("mail", "552 too big", "message_too_large", "reject"),
    ("mail", "550 5.6.7 addresses must be ASCII", "content_refused", "reject"),
    ("mail", "555 5.5.4 unknown parameter", "content_refused", "reject"),
    ("mail", "451 4.3.0 later", "deferred", "retry"),
    ("rcpt", "550 5.1.1 nobody", "recipient_refused", "reject"),
    ("rcpt", "550 5.4.1 Recipient address rejected: Access denied", "recipient_refused", "reject"),
    ("rcpt", "550 5.7.1 not this mailbox", "recipient_refused", "reject"),
    ("rcpt", "552 5.2.2 mailbox full", "recipient_refused", "reject"),
    ("rcpt", "452 4.2.2 over quota", "recipient_deferred", "retry"),
    ("rcpt", "552 too many recipients", "recipient_deferred", "retry"),
    ("rcpt", "452 4.5.3 too many recipients", "recipient_deferred", "retry"),
    ("rcpt", "550 5.5.3 too many recipients", "recipient_deferred", "retry"),
    ("rcpt", "552 5.3.4 too big", "message_too_large", "reject"),
    ("rcpt", "450 4.2.1 receiving mail at a rate that prevents", "recipient_deferred", "retry"),
    ("rcpt", "450 4.2.1 busy", "recipient_deferred", "retry"),
    ("rcpt", "451 4.7.1 greylisted", "recipient_deferred", "retry"),
    ("rcpt", "450 4.7.1 Error: too many recipients from 192.0.2.1", "rate_limited", "route_fault"),
    (
        "rcpt",
        "454 Throttling failure: Maximum sending rate exceeded",
        "rate_limited",
        "route_fault",
    ),
    ("rcpt", "454 Throttling failure: Daily message quota exceeded", "rate_limited", "route_fault"),
    ("rcpt", "552 5.2.2 hourly sending limit exceeded", "rate_limited", "route_fault"),
    ("rcpt", "530 5.7.0 login first", "auth_failed", "route_fault"),
    ("rcpt", "554 5.7.1 <a@b.test>: Relay access denied", "relay_denied", "route_fault"),
    ("rcpt", "454 4.7.1 <a@b.test>: Relay access denied", "relay_denied", "route_fault"),
    ("rcpt", "454 4.7.1 not now", "relay_denied", "route_fault"),
    ("rcpt", "550 relay not permitted", "relay_denied", "route_fault"),
    ("rcpt", "550 5.7.54 SMTP; non-accepted domain", "relay_denied", "route_fault"),
    (
        "rcpt",
        "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org",
        "client_blocked",
        "route_fault",
    ),
    ("rcpt", "554 5.7.1 <x>: Client host rejected: Access denied", "client_blocked", "route_fault"),
    ("rcpt", "504 5.5.2 <x>: Helo command rejected: need a name", "client_blocked", "route_fault"),
    (
        "rcpt",
        "553 5.7.1 <a@b.test>: Sender address rejected: not owned by user x",
        "sender_refused",
        "route_fault",
    ),
    ("rcpt", "550 5.1.8 <a@b.test>: Sender address rejected", "sender_refused", "route_fault"),
    ("data", "451 4.3.0 later", "deferred", "retry"),
    ("data", "554 5.7.1 spam", "content_refused", "reject"),
    ("data", "cut", "connection_lost", "retry"),
    ("dot", "554 5.6.0 bad content", "content_refused", "reject"),
    ("dot", "554 5.7.1 a link in it is on a block list", "content_refused", "reject"),
    ("dot", "550 5.7.26 not authenticated", "sender_unauthenticated", "route_fault"),
    ("dot", "550 5.7.60 SMTP; Client cannot do this", "sender_refused", "route_fault"),
    ("dot", "550 5.7.501 Service unavailable", "client_blocked", "route_fault"),
    ("dot", "550 5.1.90 limit reached", "rate_limited", "route_fault"),
    ("dot", "550 5.3.4 too big", "message_too_large", "reject"),
    ("dot", "552 5.2.2 mailbox full", "mailbox_full", "reject"),
    ("dot", "452 4.3.1 disk full", "deferred", "retry"),
    ("dot", "451 4.7.1 greylisted", "rate_limited", "retry"),
    ("dot", "421 4.7.0 rate", "rate_limited", "route_fault"),
    ("dot", "550 5.7.28 flood", "rate_limited", "route_fault"),
    ("dot", "timeout", "timed_out", "retry"),
)


def as_heard(text: str) -> Heard:
    return reply(text) if text[0].isdigit() else text  # type: ignore[return-value] # a word of the table


@pytest.mark.parametrize(("phase", "heard", "error_class", "disposition"), ANSWERS)
def test_what_it_means(
    phase: Phase, heard: str, error_class: str, disposition: Disposition
) -> None:
    found = failure(phase, as_heard(heard))
    assert (found.error_class, found.disposition) == (error_class, disposition)
    assert not found.maybe_sent
    assert found.detail


@pytest.mark.parametrize(
    "text",
    [
        "550 5.1.1 <daily@example.org>: unknown",
        "550 5.1.1 daily quota: unknown",
        "550 daily: unknown",
        '550 "slow down"@example.org: unknown',
        "550 host mx.example.org said: 554 relay access denied",
        "550-callout failed\r\n550-Response: 550 client host blocked\r\n550 unknown",
    ],
)
def test_neither_a_recipients_name_nor_a_quoted_server_stops_the_route(text: str) -> None:
    found = failure("rcpt", reply(text))
    assert (found.error_class, found.disposition) == ("recipient_refused", "reject")


def test_every_code_in_every_phase_has_a_rule_that_keeps_its_meaning() -> None:
    """4xx is never given up, and 5xx never tried again as it is, but for RCPT's 552."""
    for phase in ("connect", "tls", "auth", "mail", "rcpt", "data", "dot"):
        for code in range(400, 600):
            found = failure(phase, reply(f"{code} x"))
            assert found.error_class != "protocol_error"
            if code < 500:
                assert found.disposition != "reject", (phase, code)
            elif (phase, code) != ("rcpt", 552):
                assert found.disposition != "retry", (phase, code)


def test_every_rule_decides_at_least_one_of_these_answers() -> None:
    deciding = {rule_for(phase, as_heard(heard)) for phase, heard, *_ in ANSWERS}
    assert [rule for rule in RULES if rule not in deciding] == []


def test_code_and_detail_keep_the_enhanced_status_and_no_address() -> None:
    found = failure("rcpt", reply("550 5.1.1 <ann@example.org>: password=hunter2 unknown"))
    assert found.code == "550"
    assert found.detail.startswith("5.1.1 ")
    assert "ann@example.org" not in found.detail
    assert "hunter2" not in found.detail
