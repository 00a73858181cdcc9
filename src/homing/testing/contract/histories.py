"""The same history gives the same outcome on this store and on the reference (I25)."""

from __future__ import annotations

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from homing.ports import Store
from homing.testing.contract.events import Add, Draft, Edit, Event, Pass, Purge, Save, Take
from homing.testing.contract.generated import EXAMPLES
from homing.testing.contract.history import KEYS, SLOTS, WORKERS, History
from homing.testing.contract.opening import Opened

slots = st.sampled_from(SLOTS)
states = st.sampled_from(
    ["pending", "pending", "in_flight", "waiting", "delivered", "failed", "dismissed"]
)
offsets_ms = st.sampled_from([0, 1, 10, 1000])
handles = st.sampled_from([0, 1])
flags = st.booleans()
seldom = st.sampled_from([False] * 5 + [True])
drafts = st.builds(
    Draft,
    slot=slots,
    state=states,
    queue=st.sampled_from([0, 1]),
    priority=st.integers(1, 3),
    due_in_ms=offsets_ms,
    key=st.none() | st.sampled_from(KEYS),
    key_lasts_ms=st.none() | offsets_ms,
    children=st.lists(slots, max_size=3).map(tuple),
)
edits = st.builds(
    Edit,
    slot=slots,
    behind=seldom,
    state=states,
    due_in_ms=offsets_ms,
    attempt=st.none() | st.integers(1, 3),
    result=st.none() | st.sampled_from(["fetch", "send"]),
    drops=seldom,
    amends=seldom,
    child=st.none() | slots,
    closes=flags,
    forgets=seldom,
    has_notice_due=flags,
)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Add, handle=handles, drafts=st.lists(drafts, max_size=3).map(tuple)),
    st.builds(
        Take,
        handle=handles,
        worker=st.sampled_from(WORKERS),
        limit=st.integers(0, 4),
        queues=st.sampled_from([(0,), (1,), (0, 1), (1, 0)]),
        lease_ms=offsets_ms,
        protects_w1=flags,
        renews=flags,
    ),
    st.builds(
        Save,
        handle=handles,
        edits=st.lists(edits, max_size=3).map(tuple),
        sign=st.sampled_from([-1, -1, 1]),
    ),
    st.builds(Pass, by_ms=st.sampled_from([1, 10, 1000])),
    st.builds(
        Purge,
        handle=handles,
        what=st.sampled_from(["delivery", "payload", "attempts", "facts"]),
        states=st.sampled_from([(), ("delivered",), ("failed", "dismissed", "pending")]),
    ),
)


class Histories(Opened):
    @settings(
        EXAMPLES,
        max_examples=20,
        # A failure names the event at which the two part; to shrink it takes minutes on a disk.
        phases=[Phase.explicit, Phase.generate],
    )
    @given(history=st.lists(events, min_size=30, max_size=60))
    async def test_the_same_history_has_the_same_outcome_i25(
        self, store: Store, other: Store, history: list[Event]
    ) -> None:
        lived = History([store, other])
        for number, event in enumerate(history):
            try:
                await event.happen(lived)
                await lived.compare_records()
            except AssertionError as parted:
                parted.add_note(f"at event {number}: {event}")
                raise
        await lived.compare()
