"""The reference store drops shown records whose time is over; claims bring the time."""

from __future__ import annotations

from homing.domain.policy import Retention
from homing.stores.memory import MemoryStore
from homing.testing import samples
from homing.testing.contract.foreign import foreign_projection
from homing.testing.samples import NOW_MS


async def test_a_record_is_gone_at_its_end_and_not_before() -> None:
    store = MemoryStore()
    store.show(foreign_projection(Retention(delivered_s=10.0)))
    await store.add([samples.new("d1")])
    await store.save([samples.ended(samples.delivery("d1"))])

    await store.claim(samples.claim(at_ms=NOW_MS + 9_999))
    assert await store.shown("queue/d1") is not None

    await store.claim(samples.claim(at_ms=NOW_MS + 10_000))
    assert await store.shown("queue/d1") is None
    assert await store.shown_under("status/SENT") == []
    assert await store.get("d1") is not None


async def test_a_record_that_is_open_again_has_no_end() -> None:
    store = MemoryStore()
    store.show(foreign_projection(Retention(failed_s=10.0)))
    await store.add([samples.new("d1", due_at_ms=None)])
    await store.save([samples.ended(samples.delivery("d1"), "failed")])

    again = samples.delivery("d1", version=2, due_at_ms=NOW_MS + 60_000)
    await store.save([samples.retry(again, due_at_ms=NOW_MS + 60_000)])
    await store.claim(samples.claim(at_ms=NOW_MS + 10_000))

    shown = await store.shown("queue/d1")
    assert shown is not None
    assert shown.gone_at_ms is None
