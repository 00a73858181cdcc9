"""The five designs side by side: one engine carries them all, and their words are sound."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from homing.content.templates import Rendered
from homing.domain.delivery import Content, Delivery, FailedBecause, Phase, State
from homing.domain.message import Email
from homing.domain.policy import Retention
from homing.engine.intake.admission import Request
from homing.engine.process.engine import Engine
from homing.engine.route import Route
from homing.engine.work.handlers import Handlers
from homing.ports import Done, Work
from homing.stores.memory import MemoryStore
from homing.stores.queries import fits
from homing.testing.clocks import ManualClock
from homing_systems.bookings.route import bookings_route
from homing_systems.events.route import EventFields, events_route
from homing_systems.events.route import request_for as event_request
from homing_systems.mail.login_codes import login_code_request
from homing_systems.mail.route import MailRules, mail_route
from homing_systems.reviews.job import Recipient, Review
from homing_systems.reviews.job import request_for as review_request
from homing_systems.reviews.route import reviews_route
from homing_systems.verdicts.route import verdicts_route
from homing_systems.verdicts.verdict import Verdict
from homing_systems.verdicts.verdict import request_for as verdict_request
from tests.conformance.world import EvenRandom, ScriptedProvider


def event_handlers() -> Handlers:
    handlers = Handlers()
    handlers.add("invoice.paid", print, name="book")
    return handlers


ID = "7f3d1c52-8f4e-4c0b-9d5a-0c6f2b7a1e11"
REQUESTS: dict[str, Request] = {
    "verdicts": verdict_request(
        Verdict(
            session_id="cs_1",
            customer_email="ann@example.org",
            tier="full",
            query="?",
            verdict="{}",
            payment_status="paid",
        ),
        retry_id=ID,
    ),
    "reviews": review_request(
        Review(changelist_id="cl", review_version=1, recipients=(Recipient("ann@example.org"),)),
        idempotency_key="k",
    ),
    "events": event_request(
        EventFields(
            event_id="event-1",
            event_type="invoice.paid",
            payload=None,
            source="billing",
            target="ledger",
            idempotency_key="k",
        )
    ),
    "bookings": Request(message=Email(to="ann@example.org", subject="Booked", text="Monday")),
    "mail-service": login_code_request(email="ann@example.org", code="1", locale="en", key="k"),
}


async def not_logged(session_id: str) -> bool:
    return False


async def stage(work: Work) -> Done:
    return Done(result=b"done")


def compose(delivery: Delivery, content: Content) -> bytes:
    return content.payload


def render(template_id: str, locale: str | None, variables: Any) -> Rendered:
    return Rendered("Log in", "Your code")


def all_routes(clock: ManualClock) -> dict[str, Route]:
    provider = ScriptedProvider(clock)
    sender = "no-reply@example.org"
    routes = (
        verdicts_route(provider, compose, is_logged=not_logged),
        reviews_route(provider, fetch=stage, llm=stage, write=lambda content, address: b"hi"),
        events_route(event_handlers()),
        bookings_route(provider, sender=sender),
        mail_route(provider, render, MailRules(sender=sender)),
    )
    return {route.name: route for route in routes}


async def test_one_engine_and_one_store_carry_all_five(clock: ManualClock) -> None:
    """X-98, X-83"""
    routes = all_routes(clock)
    engine = Engine(MemoryStore(), tuple(routes.values()), clock=clock, rng=EvenRandom())

    tickets = {
        name: (await engine.admission.submit(routes[name], [request]))[0]
        for name, request in REQUESTS.items()
    }
    await engine.run_until_idle()

    words = {}
    for name, ticket in tickets.items():
        assert not isinstance(ticket, Exception)
        delivery = await engine.store.get(ticket.delivery_id)
        words[name] = None if delivery is None else routes[name].word(delivery)
    assert words == {
        "verdicts": "DELIVERED",
        "reviews": "succeeded",
        "events": "delivered",
        "bookings": None,
        "mail-service": "sent",
    }


def test_they_remove_what_their_documents_say_and_nothing_else(clock: ManualClock) -> None:
    routes = all_routes(clock)

    for name in ("verdicts", "reviews", "events"):
        for plan in routes[name].all_plans:
            assert plan.retention == Retention.forever()
    kept = routes["bookings"].plan.retention
    assert kept == replace(Retention.forever(), dismissed_s=0.0)


def test_no_two_routes_share_a_queue(clock: ManualClock) -> None:
    """X-98"""
    queues = [queue for route in all_routes(clock).values() for queue in route.served_queues]

    assert len(queues) == len(set(queues))


@pytest.mark.parametrize("name", REQUESTS)
def test_each_combination_is_found_under_the_one_word_it_shows(
    clock: ManualClock, name: str
) -> None:
    """X-83: a table of words is used to show and to filter, and both agree."""
    route = all_routes(clock)[name]
    plans = (route.plan, *route.plans.values())
    stages = tuple(dict.fromkeys(stage.name for plan in plans for stage in plan.stages))
    words = (*route.labels.words(), *get_args(State))

    for delivery in every_kind(stages):
        found = {
            word
            for word in words
            if any(fits(facet, delivery) for facet in route.labels.facets(word, stages))
        }
        assert found == {route.word(delivery)}


def every_kind(stages: tuple[str, ...]) -> list[Delivery]:
    kinds = []
    for state, stage_name, attempts in product(get_args(State), stages, (0, 2)):
        reasons = get_args(FailedBecause) if state in ("failed", "dismissed") else (None,)
        phases = get_args(Phase) if state == "in_flight" else ("worker",)
        kinds += [
            Delivery(
                id="d",
                route="r",
                queue="l",
                stage=stage_name,
                created_at_ms=0,
                updated_at_ms=0,
                state=state,
                attempts_spent=attempts,
                failed_because=because,
                phase=phase,
            )
            for because, phase in product(reasons, phases)
        ]
    return kinds
