"""A status word filters each route by what that route shows by it."""

from __future__ import annotations

from homing.domain.policy import Plan, Stage
from homing.engine.ops.delivery_filter import facets_of
from homing.engine.ops.labels import Label, LabelTable
from homing.engine.route import Route
from homing.ports import Facet

PLAN = Plan(stages=(Stage(name="send"),))
PLAIN = Route(name="mail", plan=PLAN, steps={})
OWN = Route(
    name="texts",
    plan=PLAN,
    steps={},
    labels=LabelTable((Label("pending", "in_flight"), Label("queued", "pending"))),
)
ROUTES = {route.name: route for route in (PLAIN, OWN)}


def test_a_word_of_one_route_does_not_widen_the_filter_of_another() -> None:
    assert facets_of("pending", ROUTES) == (
        Facet(state="pending", except_routes=("texts",)),
        Facet(state="in_flight", route="texts"),
    )


def test_a_word_of_one_route_is_looked_for_on_that_route() -> None:
    assert facets_of("queued", ROUTES) == (Facet(state="pending", route="texts"),)


def test_a_word_that_all_routes_share_names_no_route() -> None:
    assert facets_of("failed", ROUTES) == (Facet(state="failed"),)


def test_a_named_route_is_asked_alone_and_an_unknown_one_has_the_states() -> None:
    assert facets_of("pending", ROUTES, "texts") == (Facet(state="in_flight"),)
    assert facets_of("queued", ROUTES, "mail") == ()
    assert facets_of("in_flight", ROUTES, "gone") == (Facet(state="in_flight"),)


def test_a_word_that_no_route_has_stands_for_nothing() -> None:
    assert facets_of("lost", ROUTES) == ()
