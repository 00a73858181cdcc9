"""Random plans and failures, as Hypothesis strategies."""

from __future__ import annotations

from hypothesis import strategies as st

from homing.domain.failure import RATE_LIMITED, TIMED_OUT, Failure, Refusal
from homing.domain.policy import Exponential, FullJitter, Ladder, Plan, Retry, Stage

ADDRESSES = ("ann@example.org", "bob@example.org", "cat@example.org")

schedules = st.sampled_from(
    [Ladder((0.0, 60.0)), Exponential(1.0, max_s=60.0), FullJitter(Exponential(1.0))]
)
rolls = st.floats(0, 1, exclude_max=True)
refusals = st.dictionaries(
    st.sampled_from(ADDRESSES), st.builds(Refusal, permanent=st.booleans(), code=st.just("450"))
)
failures = st.builds(
    Failure,
    error_class=st.sampled_from(["deferred", RATE_LIMITED, TIMED_OUT]),
    disposition=st.sampled_from(["retry", "retry", "reject", "route_fault"]),
    retry_after_s=st.none() | st.floats(0, 1000),
    maybe_sent=st.booleans(),
    refused=refusals,
)


def _stage(name: str) -> st.SearchStrategy[Stage]:
    return st.builds(
        Stage,
        name=st.just(name),
        retry=st.builds(Retry, schedule=schedules, max_attempts=st.integers(1, 4)),
        sends=st.booleans(),
        quiet=st.booleans(),
    )


plans = st.builds(
    Plan,
    stages=st.one_of(
        st.tuples(_stage("send")),
        st.tuples(_stage("render"), _stage("send")),
        st.tuples(_stage("fetch"), _stage("think"), _stage("notify")),
    ),
    on_route_fault=st.sampled_from(["park", "fail", "retry"]),
    inline_counts=st.booleans(),
    interrupted_counts=st.booleans(),
    max_crashes=st.integers(1, 5),
    keep_delivered=st.booleans(),
    owes_on_failed=st.sampled_from([("alert",), ("alert", "line")]),
    owes_on_delivered=st.sampled_from([(), ("log",)]),
)
