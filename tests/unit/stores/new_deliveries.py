"""Deliveries to add: alike ones, as the shortcuts of stores take them, and some that are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from homing.domain.delivery import Fact, New, Receipt, Recipient
from homing.domain.failure import Failure
from homing.testing import samples

TIMES = st.integers(0, 9)
# What all of a batch may share and still be pending, each with a value that few deliveries have.
SHARED = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.just("mail/slow"),
        "stage": st.just("render"),
        "source": st.just("desk"),
        "topic": st.just("paid"),
        "intent": st.just("remind"),
        "priority": st.integers(1, 4),
        "generation": st.just(2),
        "plan": st.just("other"),
        "key_term_s": st.just(60.0),
        "created_at_ms": TIMES,
        "updated_at_ms": TIMES,
        "due_at_ms": st.none() | TIMES,
        "expires_at_ms": TIMES,
        "version": st.just(3),
        "phase": st.just("inline"),
        "attempts_ended": st.just(2),
        "attempts_spent": st.just(1),
        "max_attempts": st.just(5),
        "failure": st.just(Failure("imported", detail="elsewhere")),
        "committed_at_ms": TIMES,
        "clone_of": st.just("original"),
        "parent_id": st.just("parent"),
        "required": st.just(False),
        "notices_due": st.just(("log",)),
        "metadata": st.just({"order": "7"}),
    },
)


def alike(number: int, shared: dict[str, Any]) -> list[New]:
    """Pending, each with a payload and its own key, which never expires."""
    made = [samples.keyed(f"d{n}", f"key-{n}", **shared) for n in range(number)]
    return [
        replace(
            one,
            payload=f"payload {one.delivery.id}".encode(),
            keys=(replace(one.keys[0], source=one.delivery.source, fingerprint=one.delivery.id),),
        )
        for one in made
    ]


def with_fields(**fields: Any) -> Callable[[New], New]:
    return lambda new: replace(new, delivery=replace(new.delivery, **fields))


def with_key(**fields: Any) -> Callable[[New], New]:
    return lambda new: replace(new, keys=tuple(replace(key, **fields) for key in new.keys))


def with_second_key(new: New) -> New:
    second = samples.key(f"{new.delivery.id}-second", new.delivery.id)
    return replace(new, keys=(*(key for key in new.keys if key.key != second.key), second))


# In these ways one differs from such a batch. Each may come twice.
ODDITIES: tuple[Callable[[New], New], ...] = (
    lambda new: replace(new, payload=b""),
    lambda new: replace(new, results={"made": b"1"}),
    lambda new: replace(new, facts=(Fact("kind", new.delivery.id, 1, {"a": 1}),)),
    lambda new: replace(new, children=(samples.child(f"{new.delivery.id}-c", new.delivery.id),)),
    lambda new: replace(new, keys=()),
    with_second_key,
    with_key(source="elsewhere"),
    with_key(delivery_id="another"),
    with_key(expires_at_ms=9),
    with_fields(key=None),
    with_fields(key="shown instead"),
    with_fields(recipients=(Recipient("ann@example.org"),)),
    with_fields(recipients=(Recipient("ann@example.org"), Recipient("bob@example.org"))),
    with_fields(state="waiting", due_at_ms=None, fanned_out=True),
    with_fields(state="in_flight", holder="w1", claimed_at_ms=1, unsettled_claims=1),
    with_fields(state="suppressed", ended_at_ms=5, due_at_ms=None),
    with_fields(
        state="delivered",
        ended_at_ms=5,
        due_at_ms=None,
        key_term_s=60.0,
        receipt=Receipt(accepted_at_ms=5),
    ),
    with_fields(state="failed", failed_because="rejected", ended_at_ms=5, notices_due=("alert",)),
    with_fields(priority=1),
    with_fields(committing=True),
    with_fields(open_children=2),
)


def odd_batches() -> Iterator[list[New]]:
    """Each oddity in the first of a batch, in the last, and in all."""
    for oddity in ODDITIES:
        for places in ((0,), (2,), (0, 1, 2)):
            yield [
                oddity(new) if place in places else new for place, new in enumerate(alike(3, {}))
            ]


@st.composite
def some_alike(draw: st.DrawFn) -> list[New]:
    return alike(draw(st.integers(1, 5)), draw(SHARED))


@st.composite
def some_new(draw: st.DrawFn) -> list[New]:
    """Alike, or with odd ones among them, or all odd in the same ways."""
    new = draw(some_alike())
    oddities = draw(st.lists(st.sampled_from(ODDITIES), max_size=2))
    odd = draw(st.sets(st.sampled_from(range(len(new)))) | st.just(set(range(len(new)))))
    for place in odd:
        for oddity in oddities:
            new[place] = oddity(new[place])
    return new
