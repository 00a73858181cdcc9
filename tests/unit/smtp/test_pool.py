"""The pool: how many connections, who waits where, and what a broken server costs."""

import asyncio
import threading
from unittest.mock import patch

from homing.domain.failure import Failure
from homing.ports import Accepted, Envelope
from homing.providers.smtp.letter import Letter, compose
from homing.providers.smtp.pool import MAX_DEPTH
from homing.providers.smtp.sending import Sending
from tests.unit.smtp.sending import accepted, envelope, prove, provider, send
from tests.unit.smtp.wire_server import Cut, Drip, Hang, WireServer


async def test_one_message_needs_one_connection() -> None:
    async with WireServer() as server, provider(server.url) as smtp:
        for _ in range(3):
            await accepted(smtp)
        assert len(server.clients) == 1


async def test_a_broken_server_is_noticed_in_prepare_and_asked_once_for_all_who_wait() -> None:
    server = WireServer(greeting="554 5.7.1 go away")
    async with server, provider(server.url) as smtp:
        found = await asyncio.gather(*(smtp.prepare(envelope()) for _ in range(20)))
        assert len(server.clients) == 1
        assert {outcome.error_class for outcome in found if isinstance(outcome, Failure)} == {
            "connect_refused"
        }
        assert all(isinstance(outcome, Failure) for outcome in found)


async def test_a_server_that_refuses_further_connections_is_served_by_the_first() -> None:
    greetings = ["220 hi", "421 4.7.0 too many connections"]
    async with WireServer(greeting=greetings) as server, provider(server.url) as smtp:
        outcomes = await asyncio.gather(*(send(smtp) for _ in range(30)))
        assert all(isinstance(outcome, Accepted) for outcome in outcomes)
        assert len(server.messages) == 30
        # The refused ones are not asked for again and again.
        assert len(server.clients) <= 8


async def test_no_more_are_prepared_than_the_pool_can_soon_send() -> None:
    async with WireServer() as server, provider(server.url + "&pool=2") as smtp:
        prove(smtp, latency_s=0.01)
        ready = [await smtp.prepare(envelope()) for _ in range(2 * MAX_DEPTH)]
        late = asyncio.create_task(smtp.prepare(envelope()))
        assert await still_waiting(late)
        assert isinstance(ready[0], Sending)
        await ready[0].abandon()
        assert isinstance(await late, Sending)


async def test_a_slow_server_is_given_fewer_at_a_time_so_that_they_wait_unmarked() -> None:
    async with WireServer() as server, provider(server.url + "&pool=2") as smtp:
        prove(smtp, latency_s=30.0)
        ready = [await smtp.prepare(envelope()) for _ in range(2)]
        late = asyncio.create_task(smtp.prepare(envelope()))
        assert await still_waiting(late)
        assert isinstance(ready[0], Sending)
        assert isinstance(await ready[0].commit(), Accepted)
        assert isinstance(await late, Sending)


async def test_a_server_not_known_yet_is_given_one_for_each_connection() -> None:
    async with WireServer() as server, provider(server.url + "&pool=2") as smtp:
        ready = [await smtp.prepare(envelope()) for _ in range(2)]
        late = asyncio.create_task(smtp.prepare(envelope()))
        assert await still_waiting(late)
        assert isinstance(ready[0], Sending)
        await ready[0].abandon()
        assert isinstance(await late, Sending)


async def test_who_gives_up_waiting_for_a_place_takes_none() -> None:
    async with WireServer() as server, provider(server.url + "&pool=1") as smtp:
        prove(smtp, latency_s=0.01)
        ready = [await smtp.prepare(envelope()) for _ in range(MAX_DEPTH)]
        impatient = asyncio.create_task(smtp.prepare(envelope()))
        patient = asyncio.create_task(smtp.prepare(envelope()))
        assert await still_waiting(impatient)
        impatient.cancel()
        assert isinstance(ready[0], Sending)
        await ready[0].abandon()
        assert isinstance(await patient, Sending)


async def test_a_commit_given_up_in_the_queue_is_never_sent() -> None:
    slow = Drip("250 ok\r\n", every_s=0.02)
    async with WireServer(dot=slow) as server, provider(server.url + "&pool=1") as smtp:
        prove(smtp, latency_s=0.01)
        first = asyncio.create_task(send(smtp))
        await server.heard("DATA")
        second = asyncio.create_task(send(smtp, envelope("bob@example.org")))
        assert await still_waiting(second)
        second.cancel()
        third = asyncio.create_task(send(smtp, envelope("cat@example.org")))
        assert isinstance(await first, Accepted)
        assert isinstance(await third, Accepted)
    assert "RCPT TO:<cat@example.org>" in server.commands
    assert "RCPT TO:<bob@example.org>" not in server.commands


async def test_a_commit_given_up_before_its_content_is_never_sent_and_harms_no_other() -> None:
    async with WireServer(data=[Hang(), "354 go"]) as server, provider(server.url) as smtp:
        first = asyncio.create_task(send(smtp))
        await server.heard("DATA")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await accepted(smtp, envelope("bob@example.org"))
    assert len(server.messages) == 1


async def test_when_the_connection_is_lost_between_prepare_and_commit_a_new_one_is_made() -> None:
    async with WireServer() as server, provider(server.url + "&idle_timeout_s=0.01") as smtp:
        ready = await smtp.prepare(envelope())
        assert isinstance(ready, Sending)
        await server.heard("QUIT")
        assert isinstance(await ready.commit(), Accepted)
        assert len(server.clients) == 2


async def test_when_no_new_one_can_be_made_it_is_provably_not_sent() -> None:
    server = WireServer(greeting=["220 hi", Cut()])
    async with server, provider(server.url + "&idle_timeout_s=0.01") as smtp:
        ready = await smtp.prepare(envelope())
        assert isinstance(ready, Sending)
        await server.heard("QUIT")
        outcome = await ready.commit()
    assert isinstance(outcome, Failure)
    assert (outcome.error_class, outcome.maybe_sent) == ("connection_lost", False)


async def test_an_answer_that_meets_a_commit_being_cancelled_harms_nobody() -> None:
    async with WireServer() as server, provider(server.url + "&pool=1") as smtp:
        ready = await smtp.prepare(envelope())
        assert isinstance(ready, Sending)
        leaving = asyncio.create_task(ready.commit())
        await server.heard("DATA")
        settle = Sending.settle

        def meanwhile(sending: Sending, outcome: Accepted | Failure) -> None:
            leaving.cancel()
            settle(sending, outcome)

        with patch.object(Sending, "settle", meanwhile):
            await asyncio.wait({leaving})
        assert leaving.cancelled()
        await accepted(smtp, envelope("bob@example.org"))
    assert len(server.clients) == 1


async def test_of_a_group_as_many_are_prepared_as_there_are_places() -> None:
    async with WireServer() as server, provider(server.url + "&pool=1") as smtp:
        prove(smtp, latency_s=0.01)
        wrong = envelope("not an address")
        group = [envelope(), wrong, *[envelope() for _ in range(MAX_DEPTH)]]

        prepared = await smtp.prepare_some(group)

        assert len(prepared) == MAX_DEPTH + 1
        assert isinstance(prepared[1], Failure)
        late = asyncio.create_task(smtp.prepare_some(group[-1:]))
        assert await still_waiting(late)
        assert isinstance(prepared[0], Sending)
        await prepared[0].abandon()
        assert len(await late) == 1


async def test_a_group_for_which_there_is_no_server_fails_as_one() -> None:
    async with WireServer(greeting=[Cut()]) as server, provider(server.url) as smtp:
        prepared = await smtp.prepare_some([envelope(), envelope("not an address"), envelope()])
    assert [isinstance(one, Failure) and one.error_class for one in prepared] == [
        "connection_lost",
        "recipient_refused",
        "connection_lost",
    ]


async def test_a_group_that_nobody_could_take_asks_for_no_connection() -> None:
    async with WireServer() as server, provider(server.url) as smtp:
        [refused] = await smtp.prepare_some([envelope("not an address")])
    assert isinstance(refused, Failure)
    assert server.clients == []


async def test_the_lines_of_a_large_mail_are_made_beside_the_event_loop() -> None:
    threads: list[threading.Thread] = []

    def watched(of: Envelope, sender: str | None) -> Letter | Failure:
        threads.append(threading.current_thread())
        return compose(of, sender)

    async with WireServer() as server, provider(server.url) as smtp:
        with (
            patch("homing.providers.smtp.provider.compose", watched),
            patch("homing.providers.smtp.provider.LARGE_MESSAGE", 10),
        ):
            await accepted(smtp)
    assert threads != [threading.main_thread()]
    assert len(server.messages) == 1


async def test_a_group_is_started_without_waiting_and_each_answer_is_told_once() -> None:
    async with WireServer() as server, provider(server.url + "&pool=2") as smtp:
        told: asyncio.Queue[Accepted | Failure] = asyncio.Queue()
        prepared = await smtp.prepare_some([envelope(), envelope("bob@example.org")])
        for one in prepared:
            assert isinstance(one, Sending)
            one.start(told.put_nowait)
        answers = [await told.get(), await told.get()]
        assert all(isinstance(answer, Accepted) for answer in answers)
        assert told.empty()
    assert len(server.messages) == 2


async def test_what_is_withdrawn_gives_its_place_back_and_tells_nobody() -> None:
    slow = Drip("250 ok\r\n", every_s=0.02)
    async with WireServer(dot=slow) as server, provider(server.url + "&pool=1") as smtp:
        told: list[Accepted | Failure] = []
        [sending] = await smtp.prepare_some([envelope()])
        assert isinstance(sending, Sending)
        sending.start(told.append)
        await server.heard("DATA")
        sending.withdraw()
        sending.withdraw()
        [other] = await smtp.prepare_some([envelope("bob@example.org")])
        assert isinstance(other, Sending)
        assert isinstance(await other.commit(), Accepted)
    assert told == []


async def test_check_tells_whether_mail_could_be_sent_and_sends_none() -> None:
    async with WireServer() as server, provider(server.url) as smtp:
        assert await smtp.check() is None
        assert server.messages == []
    async with WireServer(greeting="421 busy") as server, provider(server.url) as smtp:
        found = await smtp.check()
        assert found is not None
        assert found.code == "421"


async def still_waiting(task: asyncio.Task[object]) -> bool:
    """Whether it has not ended after everything that can happen now has happened."""
    for _ in range(20):
        await asyncio.sleep(0)
    return not task.done()
