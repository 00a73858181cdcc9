"""The simulator: 200,000 deliveries under faults, the same every time (I1 to I21)."""

from __future__ import annotations

import re
from collections import Counter
from typing import get_args

import pytest

from tests.simulation.command import figures, simulate
from tests.simulation.simulator import draw
from tests.simulation.simulator.options import FAMILIES, StoreName

QUEUE = "0-59"
# Every one of these must have happened in the queue, else it proves less than it says.
FAULTS = (
    "answer_garbage", "answer_none", "bad_credentials", "clock_jump", "crash", "cut_after",
    "cut_before", "deferred", "deploy", "freeze", "handler_failed", "handler_hung",
    "handler_useless", "hung", "lookup_failed", "notice_refused", "outage", "partial",
    "person_pauses", "prepare_garbage", "prepare_raised", "rejected", "retry_after",
    "retry_after_absurd", "start_raised", "store_full", "store_refused", "store_surprise",
    "store_unknown", "store_unknown_lost", "suppressed",
)  # fmt: skip
ENDS = (
    "delivered", "dismissed", "failed:exhausted", "failed:expired", "failed:poison",
    "failed:rejected", "failed:uncertain", "pending", "suppressed",
)  # fmt: skip
# Batches, and what retention takes away.
REACHED = (
    "claims_of_64_on_event", "claims_of_64_on_post", "marks_of_64", "purged_delivery",
    "purged_keys",
)  # fmt: skip


@pytest.mark.timeout(900)
def test_the_default_queue_keeps_every_invariant() -> None:
    run = simulate(QUEUE)
    found = figures(run)
    assert run.returncode == 0, run.stderr[-6000:]
    assert found["deliveries"] >= 200_000
    assert (found["unexplained"], found["lost"], found["violations"]) == (0, 0, 0)
    assert found["duplicates"] > 0, "windows that are never hit are not proved"
    words = (*FAULTS, *ENDS, *REACHED)
    missing = [word for word in words if not re.search(rf"\b{word}=[1-9]", run.stderr)]
    assert missing == []


def test_the_same_range_gives_the_same_line_whatever_the_hash_seed() -> None:
    runs = [
        simulate("100-103", "--deliveries", "120", "--jobs", jobs, hash_seed=hash_seed)
        for jobs, hash_seed in (("1", "7"), ("2", None))
    ]
    assert runs[0].stdout == runs[1].stdout
    assert figures(runs[0])["seeds"] == 4


@pytest.mark.parametrize("store", get_args(StoreName))
def test_two_runs_of_each_seed_leave_the_same_trace(store: str) -> None:
    run = simulate("300-315", "--deliveries", "100", "--twice", "--store", store)
    assert run.returncode == 0, run.stderr[-4000:]


def test_a_seed_comes_to_the_same_on_every_store() -> None:
    """I25: the faults, the answers and the ends are the same, whatever the store."""
    runs = [simulate("400-407", "--deliveries", "80", "--store", s) for s in get_args(StoreName)]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stderr.splitlines()[-3:] == runs[1].stderr.splitlines()[-3:]


def test_some_seeds_run_on_sqlite() -> None:
    stores = Counter(draw(seed).store for seed in range(100))
    assert set(stores) == set(get_args(StoreName))


def test_one_seed_is_told_word_by_word_and_identically() -> None:
    first, second = (simulate("--seed", "107", "--deliveries", "40") for _ in range(2))
    assert first.stdout == second.stdout
    told = first.stdout.splitlines()
    assert len(told) > 100
    assert any(" commit " in line for line in told)
    assert "seed=107" in first.stderr


def test_each_seed_switches_a_subset_of_the_faults_on() -> None:
    subsets = Counter(draw(seed).families for seed in range(400))
    sizes = Counter(len(families) for families in subsets.elements())
    assert all(sizes[size] for size in range(1, 9)), "alone, and with few or many others"
    for family in FAMILIES:
        share = sum(n for families, n in subsets.items() if family in families) / 400
        assert 0.2 < share < 0.7, family


def test_options_are_drawn_from_the_seed_alone() -> None:
    assert draw(5) == draw(5) != draw(6)
    assert str(draw(5)).startswith("seed=5 ")
