"""More recipients than a server takes at once: the rest goes in further transactions."""

import pytest

from homing.domain.failure import Failure
from homing.ports import Accepted
from homing.providers.smtp.sending import Sending
from tests.unit.smtp.sending import accepted, envelope, provider, send
from tests.unit.smtp.wire_server import LOCK_STEP, PIPELINING, Answer, Client, Cut, Hang, WireServer

BOTH = pytest.mark.parametrize("features", [PIPELINING, LOCK_STEP], ids=["pipelined", "lock-step"])
NAMES = tuple(f"r{number}@example.org" for number in range(25))


class TakesFew:
    """Takes `most` recipients in a transaction, and answers the others with `beyond`."""

    def __init__(self, most: int, beyond: str) -> None:
        self.most = most
        self.beyond = beyond

    def __call__(self, verb: str, client: Client) -> Answer | None:
        if verb != "rcpt":
            return None
        return self.beyond if transaction_of(client) > self.most else None


def transaction_of(client: Client) -> int:
    """How many recipients the current transaction has asked for."""
    since_mail = 0
    for command in reversed(client.commands):
        if command.startswith("MAIL"):
            break
        since_mail += command.startswith("RCPT")
    return since_mail


def asked(server: WireServer) -> list[int]:
    """The number of recipients of each transaction."""
    counts: list[int] = []
    for command in server.commands:
        if command.startswith("MAIL"):
            counts.append(0)
        elif command.startswith("RCPT"):
            counts[-1] += 1
    return counts


@BOTH
@pytest.mark.parametrize(
    "beyond",
    [
        "452 4.5.3 Error: too many recipients",
        "452 too many recipients",
        "552 too many recipients",
        "550 5.5.3 too many recipients",
    ],
)
async def test_all_recipients_are_reached_in_one_attempt(
    features: tuple[str, ...], beyond: str
) -> None:
    server = WireServer(features, to_client=TakesFew(10, beyond))
    async with server, provider(server.url) as smtp:
        outcome = await accepted(smtp, envelope(*NAMES))
    assert outcome.refused == {}
    assert len(server.messages) == 3
    # What the first transaction has shown is kept to by the others.
    assert asked(server) == [25, 10, 5]


async def test_a_limit_that_is_announced_is_kept_to_from_the_start() -> None:
    """RFC 9422."""
    server = WireServer((*PIPELINING, "LIMITS RCPTMAX=10 MAILMAX=2"))
    async with server, provider(server.url + "&pool=1") as smtp:
        outcome = await accepted(smtp, envelope(*NAMES))
    assert outcome.refused == {}
    assert asked(server) == [10, 10, 5]
    assert [len(client.messages) for client in server.clients] == [2, 1]


async def test_a_full_mailbox_is_not_one_recipient_too_many() -> None:
    full = ["250 ok", "452 4.2.2 mailbox full", "250 ok"]
    async with WireServer(rcpt=full) as server, provider(server.url) as smtp:
        outcome = await accepted(smtp, envelope(*NAMES[:3]))
    assert list(outcome.refused) == [NAMES[1]]
    assert len(server.messages) == 1


async def test_one_that_is_refused_by_the_same_words_alone_is_deferred() -> None:
    """Without an enhanced code it may be a full mailbox: it is asked for once more, and alone."""

    def full(verb: str, client: Client) -> str | None:
        return "452 no" if verb == "rcpt" and NAMES[1] in client.commands[-1] else None

    async with WireServer(to_client=full) as server, provider(server.url) as smtp:
        outcome = await accepted(smtp, envelope(*NAMES[:3]))
    assert {name: refusal.permanent for name, refusal in outcome.refused.items()} == {
        NAMES[1]: False
    }
    assert asked(server) == [3, 1]
    assert len(outcome.receipt.notification_id) > 0


async def test_refusals_of_all_transactions_are_named() -> None:
    few = TakesFew(10, "452 4.5.3 too many")

    def answer(verb: str, client: Client) -> Answer | None:
        if verb == "rcpt" and client.commands[-1][9:-1] in (NAMES[3], NAMES[20]):
            return "550 5.1.1 nobody"
        return few(verb, client)

    async with WireServer(to_client=answer) as server, provider(server.url) as smtp:
        outcome = await accepted(smtp, envelope(*NAMES))
    assert list(outcome.refused) == [NAMES[3], NAMES[20]]
    assert all(refusal.permanent for refusal in outcome.refused.values())


async def test_when_a_later_transaction_is_put_off_only_its_recipients_are_tried_again() -> None:
    few = TakesFew(10, "452 4.5.3 too many")
    server = WireServer(to_client=few, dot=["250 queued as A1", "451 4.3.0 later"])
    async with server, provider(server.url) as smtp:
        outcome = await accepted(smtp, envelope(*NAMES))
    assert list(outcome.refused) == list(NAMES[10:])
    assert not any(refusal.permanent for refusal in outcome.refused.values())
    assert outcome.refused[NAMES[10]].code == "451"
    assert outcome.receipt.notification_id == "A1"
    assert len(server.messages) == 2


async def test_doubt_in_a_later_transaction_is_for_its_own_recipients() -> None:
    few = TakesFew(10, "452 4.5.3 too many")
    server = WireServer(to_client=few, dot=["250 ok", Cut()])
    async with server, provider(server.url) as smtp:
        outcome = await accepted(smtp, envelope(*NAMES))
    assert list(outcome.refused) == list(NAMES[10:])
    assert outcome.refused[NAMES[10]].maybe_sent
    assert not any(refusal.permanent for refusal in outcome.refused.values())


async def test_one_that_is_withdrawn_between_two_transactions_tells_who_has_it() -> None:
    few = TakesFew(10, "452 4.5.3 too many")
    told: list[Accepted | Failure] = []
    async with (
        WireServer(to_client=few, dot=["250 ok", Hang()]) as server,
        provider(server.url) as smtp,
    ):
        ready = await smtp.prepare(envelope(*NAMES))
        assert isinstance(ready, Sending)
        ready.start(told.append)
        await server.got(messages=2)
        ready.withdraw()
        ready.withdraw()
    [outcome] = told
    assert isinstance(outcome, Accepted)
    assert list(outcome.refused) == list(NAMES[10:])
    assert all(refusal.maybe_sent for refusal in outcome.refused.values())


async def test_when_the_first_ones_are_all_refused_the_others_get_their_transaction() -> None:
    def nobody(verb: str, client: Client) -> Answer | None:
        if verb == "rcpt" and client.commands[-1][9:-1] in NAMES[:10]:
            return "550 5.1.1 nobody"
        return None

    server = WireServer(
        (*PIPELINING, "LIMITS RCPTMAX=10"), to_client=nobody, data=["554 no", "354"]
    )
    async with server, provider(server.url) as smtp:
        outcome = await accepted(smtp, envelope(*NAMES[:12]))
    assert list(outcome.refused) == list(NAMES[:10])
    assert len(server.messages) == 1


async def test_a_server_that_takes_nobody_is_asked_once() -> None:
    async with (
        WireServer(rcpt="452 4.5.3 no", data="503 no") as server,
        provider(server.url) as smtp,
    ):
        outcome = await send(smtp, envelope(*NAMES))
    assert isinstance(outcome, Failure)
    assert not isinstance(outcome, Accepted)
    assert outcome.disposition == "retry"
    assert asked(server) == [25]
