"""A filter becomes the query of a store; a status word is what each route shows by it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from homing.domain.errors import InvalidRequest
from homing.domain.policy import Plan, Stage
from homing.engine.ops.delivery_filter import (
    FILTERS,
    DeliveryFilter,
    facets_of,
    filter_from,
    query_for,
)
from homing.engine.ops.labels import Label, LabelTable
from homing.engine.route import Route
from homing.ports import Facet, Query

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


def query(**conditions: Any) -> Query:
    return query_for(DeliveryFilter(**conditions), ROUTES, str.lower)


def test_each_condition_has_its_part_in_the_query() -> None:
    after, before = datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 17, tzinfo=UTC)
    given: dict[str, Any] = {
        "state": "failed",
        "status": "failed",
        "route": "mail",
        "recipient": "Ann@Example.org",
        "source": "shop",
        "key": "k",
        "topic": "welcome",
        "error_class": "gone",
        "reason": "rejected",
        "created_after": after,
        "created_before": before,
    }
    assert given.keys() == FILTERS.keys()
    assert query(**given) == Query(
        route="mail",
        source="shop",
        key="k",
        topic="welcome",
        recipient="ann@example.org",
        error_class="gone",
        facets=(Facet(state="failed", failed_because="rejected"),),
        created_from_ms=round(after.timestamp() * 1000),
        created_before_ms=round(before.timestamp() * 1000),
    )


def test_each_request_is_found_once_unless_its_parts_are_asked_for() -> None:
    assert query().top_only
    assert query(source="shop").top_only
    assert not query(recipient="ann@example.org").top_only
    assert not query(error_class="gone").top_only


def test_status_reason_and_state_hold_together() -> None:
    assert query(status="queued", state="pending").facets == (
        Facet(state="pending", route="texts"),
    )
    assert query(status="queued", state="failed").facets == ()
    assert query(reason="poison", state="delivered").facets == ()


@pytest.mark.parametrize(
    ("given", "field", "problem"),
    [
        ({"status": "lost"}, "status", "must be one of delivered"),
        ({"state": "lost"}, "state", "must be one of pending"),
        ({"reason": "lost"}, "reason", "must be one of rejected"),
        ({"source": "x" * 201}, "source", "length <= 200"),
        ({"key": "a\x00b"}, "key", "NUL"),
        ({"source": 5}, "source", "Expected `str`"),
        ({"created_after": datetime(2026, 11, 16)}, "created_after", "timezone"),  # noqa: DTZ001 - refused
        (
            {
                "created_after": datetime(2026, 11, 17, tzinfo=UTC),
                "created_before": datetime(2026, 11, 16, tzinfo=UTC),
            },
            "created_after",
            "is after created_before",
        ),
    ],
)
def test_a_condition_that_is_wrong_is_named(
    given: dict[str, Any], field: str, problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem) as refusal:
        query(**given)
    assert refusal.value.field == field


def test_a_filter_is_read_from_texts() -> None:
    assert filter_from({"state": "failed", "created_after": "2026-11-16T08:00Z"}) == DeliveryFilter(
        state="failed", created_after=datetime(2026, 11, 16, 8, tzinfo=UTC)
    )
    for name, text in (("colour", "red"), ("state", "lost"), ("created_before", "2026-11-16")):
        with pytest.raises(InvalidRequest) as refusal:
            filter_from({name: text})
        assert refusal.value.field == name
