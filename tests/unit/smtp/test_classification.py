"""The table, row by row, as an operator would read it."""

import pytest

from homing.domain.failure import Disposition
from homing.providers.smtp.classification import RULES, Heard, failure
from homing.providers.smtp.exchange import Phase
from homing.providers.smtp.replies import Reply, ReplyParser


def reply(text: str) -> Reply:
    (found,) = ReplyParser().feed(text.encode() + b"\r\n")
    return found


@pytest.mark.parametrize(
    ("phase", "heard", "error_class", "disposition"),
    [
        ("connect", "unreachable", "connect_failed", "retry"),
        ("connect", "timeout", "timed_out", "retry"),
        ("connect", "cut", "connection_lost", "retry"),
        ("connect", "garbled", "protocol_error", "retry"),
        ("connect", "421 4.7.0 too many connections", "rate_limited", "retry"),
        ("connect", "421 4.3.2 shutting down", "deferred", "retry"),
        ("connect", "554 5.7.1 your address is blocked", "connect_refused", "route_fault"),
        ("tls", "missing", "starttls_missing", "route_fault"),
        ("tls", "untrusted", "tls_failed", "route_fault"),
        ("tls", "454 4.7.0 not now", "tls_failed", "route_fault"),
        ("tls", "timeout", "timed_out", "retry"),
        ("tls", "cut", "connection_lost", "retry"),
        ("auth", "missing", "auth_unavailable", "route_fault"),
        ("auth", "535 5.7.8 bad", "auth_failed", "route_fault"),
        ("auth", "454 4.7.0 later", "deferred", "retry"),
        ("auth", "421 4.7.0 slow down", "rate_limited", "retry"),
        ("auth", "timeout", "timed_out", "retry"),
        ("mail", "530 5.7.0 authentication required", "auth_failed", "route_fault"),
        ("mail", "550 5.7.1 not your address", "sender_refused", "reject"),
        ("mail", "552 5.3.4 too big", "message_too_large", "reject"),
        ("mail", "451 4.3.0 later", "deferred", "retry"),
        ("mail", "450 4.7.1 slow down", "rate_limited", "retry"),
        ("rcpt", "550 5.1.1 nobody", "recipient_refused", "reject"),
        ("rcpt", "552 too many recipients", "recipient_deferred", "retry"),
        ("rcpt", "450 4.2.1 busy", "recipient_deferred", "retry"),
        ("rcpt", "451 4.7.1 greylisted", "rate_limited", "retry"),
        ("rcpt", "530 5.7.0 login first", "auth_failed", "route_fault"),
        ("data", "451 4.3.0 later", "deferred", "retry"),
        ("data", "554 5.7.1 spam", "content_refused", "reject"),
        ("data", "cut", "connection_lost", "retry"),
        ("dot", "554 5.6.0 bad content", "content_refused", "reject"),
        ("dot", "550 5.3.4 too big", "message_too_large", "reject"),
        ("dot", "552 5.2.2 mailbox full", "mailbox_full", "reject"),
        ("dot", "452 4.3.1 disk full", "deferred", "retry"),
        ("dot", "421 4.7.0 rate", "rate_limited", "retry"),
        ("dot", "timeout", "timed_out", "retry"),
    ],
)
def test_what_it_means(
    phase: Phase, heard: str, error_class: str, disposition: Disposition
) -> None:
    word: Heard = reply(heard) if heard[0].isdigit() else heard  # type: ignore[assignment] # a word of the table
    found = failure(phase, word)
    assert (found.error_class, found.disposition) == (error_class, disposition)
    assert not found.maybe_sent
    assert found.detail


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


def test_every_rule_can_be_reached() -> None:
    for rule in RULES:
        reached = []
        for phase in rule.phases:
            for word in rule.heard:
                digits = word.replace("xx", "99") if word[0].isdigit() else ""
                heard: Heard = reply(f"{digits} {rule.enhanced}0 x") if digits else word  # type: ignore[assignment] # a word of the table
                reached.append(failure(phase, heard))
        assert (rule.error_class, rule.disposition) in {
            (found.error_class, found.disposition) for found in reached
        }


def test_code_and_detail_keep_the_enhanced_status_and_no_address() -> None:
    found = failure("rcpt", reply("550 5.1.1 <ann@example.org>: password=hunter2 unknown"))
    assert found.code == "550"
    assert found.detail.startswith("5.1.1 ")
    assert "ann@example.org" not in found.detail
    assert "hunter2" not in found.detail
