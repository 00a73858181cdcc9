"""The system's clock and random numbers: two adapters that every process needs."""

from __future__ import annotations

import random
import secrets
import threading
import time
from functools import cached_property
from pathlib import Path

from homing.domain.delivery import Fact, FactValue
from homing.ports import Random, Store
from homing.runtime import forks

DRAWN_BYTES = 4096
TIME_ANCHOR = "time_scale"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """Wall time for due times; the boot's own clock, which also runs in sleep, for leases."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    @cached_property
    def boot(self) -> str:
        try:
            return _BOOT_ID.read_text(encoding="ascii").strip()
        except OSError:
            # Unknown boot: no other process is compared with by steady time.
            return secrets.token_hex(16)


class SystemRandom:
    """Jitter from a quick generator, identities from the system's generator.

    The kernel is asked for a page at a time: each call lets other threads run first, which costs a
    busy event loop far more than the bytes. No byte is given out twice.
    """

    def __init__(self) -> None:
        self._forget_parent()
        forks.forget_in_child(self)

    def _forget_parent(self) -> None:
        """A forked child may not give out what its parent will."""
        self._random = random.Random()  # noqa: S311 - jitter needs spread, not secrecy
        self._lock = threading.Lock()
        self._drawn = b""
        self._given = 0

    def roll(self) -> float:
        return self._random.random()

    def entropy(self, size: int) -> bytes:
        with self._lock:
            if self._given + size > len(self._drawn):
                self._drawn = secrets.token_bytes(max(DRAWN_BYTES, size))
                self._given = 0
            drawn = self._drawn[self._given : self._given + size]
            self._given += size
            return drawn


class ScaledClock(SystemClock):
    """For watching hours of retries in seconds: the wall clock runs `scale` times as fast.

    The anchor is kept in the store, so that several processes agree on the time.
    """

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.set_anchor()

    def set_anchor(self) -> None:
        """The time from which scaled time and wall time differ."""
        self.anchor_ms = super().now_ms()

    def now_ms(self) -> int:
        return self.anchor_ms + round((super().now_ms() - self.anchor_ms) * self.scale)


async def agree_on_time(clock: ScaledClock, store: Store, rng: Random) -> None:
    """Each process that finds no anchor offers its own; the smallest one counts for all."""
    prefix = f"{clock.scale:g}/"
    facts = await store.facts(TIME_ANCHOR, prefix)
    if not facts:
        clock.set_anchor()
        name = f"{prefix}{clock.anchor_ms:015d}/{rng.entropy(4).hex()}"
        value: FactValue = {"anchor_ms": clock.anchor_ms}
        await store.save([], [Fact(TIME_ANCHOR, name, clock.anchor_ms, value)])
        facts = await store.facts(TIME_ANCHOR, prefix)
    clock.anchor_ms = min(int((fact.value or {}).get("anchor_ms") or 0) for fact in facts)
