"""The health of the store, as observed by the parts of this process.

Damage is logged and alerted at once. A refusal may be temporary (a lock, a full disk for a moment),
so it is alerted once it has lasted for some time. A call that does not return counts as refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from homing.domain.errors import StoreCorrupt, StoreError
from homing.engine.process.store_report import note_damage, reason_of
from homing.ports import Alert, Clock, Store

log = logging.getLogger("homing.engine")

# Longer than the busy timeout of SQLite: one lock that was waited for in vain is no alert yet.
REFUSES_AFTER_S = 10.0
LOOK_EVERY_S = 1.0
NOTE_WITHIN_S = 5.0
DAMAGED = "store_damaged"
REFUSES = "store_refuses"


class StoreHealth:
    """Repeated requests to the store have a name, such as the claims of a route."""

    def __init__(
        self, store: Store, clock: Clock, sound: Callable[[Alert], Awaitable[bool]]
    ) -> None:
        self._store = store
        self._clock = clock
        self._sound = sound
        # By name: since when it is asked in vain, and the last error.
        self._unanswered: dict[str, float] = {}
        self._errors: dict[str, StoreError] = {}
        self._damage: set[str] = set()
        self._damage_to_tell: list[str] = []
        self._damage_to_note: list[str] = []
        self._has_damage_to_tell = asyncio.Event()
        self._is_refusal_logged = False
        self._is_refusal_told = False

    def asked(self, name: str) -> None:
        if name not in self._unanswered:
            self._unanswered[name] = self._clock.steady_s()

    def answered(self, name: str) -> None:
        self._unanswered.pop(name, None)
        self._errors.pop(name, None)

    def refused(self, name: str, error: StoreError) -> None:
        """It will be repeated under the same name."""
        self.asked(name)
        self._errors[name] = error
        self.met(error)

    def met(self, error: StoreError) -> None:
        """An error of a single request, which is not repeated under a name."""
        text = str(error)
        if isinstance(error, StoreCorrupt) and text not in self._damage:
            log.error("%s detail=%s", DAMAGED, text)
            self._damage.add(text)
            self._damage_to_tell.append(text)
            self._damage_to_note.append(text)
            self._has_damage_to_tell.set()

    @property
    def problems(self) -> list[str]:
        """What is wrong now, without details of the store; empty while it answers."""
        now_s = self._clock.steady_s()
        damaged = [name for name, error in self._errors.items() if isinstance(error, StoreCorrupt)]
        return [f"damage of the store stops the {name}" for name in sorted(damaged)] + [
            f"the store has refused the {name} for {now_s - self._unanswered[name]:.0f} s"
            + (f": {reason_of(self._errors[name])}" if name in self._errors else "")
            for name in self._refused()
        ]

    def _refused(self) -> list[str]:
        """Names of requests that were refused for too long, or have no answer."""
        before_s = self._clock.steady_s() - REFUSES_AFTER_S
        return [
            name
            for name, since_s in sorted(self._unanswered.items())
            if since_s < before_s and not isinstance(self._errors.get(name), StoreCorrupt)
        ]

    async def watch(self) -> None:
        """Runs for ever: logs and alerts."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._has_damage_to_tell.wait()
            self._has_damage_to_tell.clear()
            await self.tell()

    async def tell(self) -> None:
        """Alert for each damage once, and for refusals once until the store answers again."""
        now_ms = self._clock.now_ms()
        for text in list(self._damage_to_tell):
            if await self._sound(Alert(DAMAGED, "store", text, now_ms)):
                self._damage_to_tell.remove(text)
        refused = self._refused()
        text = "; ".join(f"{name}: {self._errors.get(name, 'no answer')}" for name in refused)
        if refused and not self._is_refusal_logged:
            log.error("%s detail=%s", REFUSES, text)
        if not refused and self._is_refusal_logged:
            log.warning("store_answers_again")
        self._is_refusal_logged = bool(refused)
        if refused and not self._is_refusal_told:
            self._is_refusal_told = await self._sound(Alert(REFUSES, "store", text, now_ms))
        elif not refused:
            self._is_refusal_told = False
        await self._note_damage()

    async def _note_damage(self) -> None:
        """After the alerts, with a short limit: the damaged store may refuse this write, too."""
        with contextlib.suppress(StoreError, TimeoutError):  # the next look tries again
            async with asyncio.timeout(NOTE_WITHIN_S):
                for text in list(self._damage_to_note):
                    await note_damage(self._store, self._clock, text)
                    self._damage_to_note.remove(text)
