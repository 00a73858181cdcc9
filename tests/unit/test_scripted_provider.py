"""The scripted provider, used as its users use it: under the real engine, in virtual time."""

from __future__ import annotations

from homing.domain.delivery import Delivery
from homing.domain.failure import Failure
from homing.domain.message import Email
from homing.domain.policy import Ladder, Plan, Retry, Stage
from homing.engine.intake.admission import Request
from homing.engine.process.engine import Engine
from homing.engine.route import Route
from homing.engine.work.steps import SendStep
from homing.ports import Unknown
from homing.stores.memory import MemoryStore
from homing.testing.clocks import ManualClock
from homing.testing.random_numbers import SeededRandom
from homing.testing.scripted import Hang, ScriptedLookup, ScriptedProvider
from tests.simulation.virtualtime import run


def route_over(provider: ScriptedProvider) -> Route:
    stage = Stage(
        name="send", retry=Retry(Ladder((60.0,)), max_attempts=3), timeout_s=5.0, sends=True
    )
    step = SendStep(provider, lambda _, content: content.payload)
    plan = Plan(stages=(stage,), on_unknown="hold")
    return Route(name="mail", plan=plan, steps={"send": step}, provider=provider)


async def _delivered(provider: ScriptedProvider, minutes: int) -> Delivery:
    """Submit one mail and let so many minutes pass."""
    clock, store = ManualClock(), MemoryStore()
    engine = Engine(store, [route_over(provider)], clock=clock, rng=SeededRandom())
    request = Request(message=Email(to="ann@example.org", text="hello"))
    [ticket] = await engine.admission.submit(engine.routes["mail"], [request])
    for _ in range(minutes):
        await engine.run_until_idle()
        clock.advance(60.0)
    delivery = await store.get(getattr(ticket, "delivery_id", ""))
    assert delivery is not None
    return delivery


def test_it_answers_in_turn_and_then_accepts() -> None:
    provider = ScriptedProvider([Failure("deferred"), Failure("deferred")])
    delivery = run(_delivered(provider, minutes=3))
    assert (delivery.state, delivery.attempts_spent) == ("delivered", 3)
    assert len(provider.committed) == 3
    assert len(provider.accepted) == 1


def test_a_refusal_before_the_send_sends_nothing() -> None:
    provider = ScriptedProvider(refusals=[Failure("no_such_host", "reject")])
    delivery = run(_delivered(provider, minutes=1))
    assert (delivery.state, delivery.failed_because) == ("failed", "rejected")
    assert provider.committed == []


def test_an_answer_that_never_comes_leaves_doubt() -> None:
    provider = ScriptedProvider([Hang(accepted=True)])
    delivery = run(_delivered(provider, minutes=2))
    assert (delivery.state, delivery.failed_because) == ("failed", "uncertain")
    assert len(provider.accepted) == len(provider.committed) == 1


def test_one_that_can_be_asked_settles_the_doubt() -> None:
    provider = ScriptedLookup([Hang(accepted=True)], lookups=[Unknown(ask_again_s=30.0)])
    delivery = run(_delivered(provider, minutes=3))
    assert delivery.state == "delivered"
    assert len(provider.asked) == 2
    assert len(provider.committed) == 1
