"""What `health`, `/readyz` and `doctor` report about the store, for all its processes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from homing.domain.delivery import Fact
from homing.domain.errors import StoreCorrupt, StoreError, StoreFull, StoreLocked
from homing.engine.process.alerts import QUARANTINED, RESTORED
from homing.ports import Clock, Store

# By its text: damage that a process has met.
DAMAGE = "store_damage"
# Then people know, or it is met again.
SHOWN_FOR_MS = 24 * 3600 * 1000
WRITES_WITHIN_S = 15.0
# Stored nowhere: its removal makes the store write, and changes nothing.
_NO_FACT = "write_check"

_WORDS: tuple[tuple[type[StoreError], str], ...] = (
    (StoreLocked, "another connection keeps it locked"),
    (StoreFull, "it has no room"),
    (StoreCorrupt, "it is damaged"),
)


def reason_of(error: StoreError) -> str:
    """Why the store refuses, without details of the store."""
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return words
    return "it is not available"


async def why_not_writable(store: Store, clock: Clock) -> str | None:
    """Make a write that changes nothing; None if the store accepts it."""
    try:
        async with asyncio.timeout(WRITES_WITHIN_S):
            await store.save([], [Fact(_NO_FACT, "", clock.now_ms(), None)])
    except TimeoutError:
        return "the store does not answer"
    except StoreError as error:
        return f"the store refuses to write: {reason_of(error)} ({error})"
    return None


async def note_damage(store: Store, clock: Clock, text: str) -> None:
    await store.save([], [Fact(DAMAGE, text, clock.now_ms(), {"text": text})])


async def damage_met(store: Store, clock: Clock) -> Sequence[str]:
    """Damage that processes of this store have detected lately, in the words of the store."""
    facts = [*await store.facts(DAMAGE), *await store.facts(QUARANTINED)]
    return [str((fact.value or {}).get("text")) for fact in facts if _is_shown(fact, clock)]


async def store_warnings(store: Store, clock: Clock) -> list[str]:
    """Warnings although the store works, without details of the store."""
    warnings: list[str] = []
    if await damage_met(store, clock):
        warnings.append("damage was detected in the store: run `homing doctor`")
    if any(_is_shown(fact, clock) for fact in await store.facts(RESTORED)):
        warnings.append("a backup was restored: what was sent since it was made may be sent again")
    return warnings


def _is_shown(fact: Fact, clock: Clock) -> bool:
    return clock.now_ms() - fact.at_ms < SHOWN_FOR_MS
