"""What a verb on a parent does to its children, and a verb on a child to its parent.

- replay, restart: failed children are replayed first; those of an earlier payload are dismissed.
- cancel: open children are cancelled with it. A child in flight may have been sent already: it
  is left alone and ends by itself. One in doubt becomes uncertain.
- restore: the children that were cancelled with it are restored first.
- amend: children of the earlier payload no longer count, and those still open are cancelled.
- replay or confirm of a child: its failed parent waits for its children again.

Children are saved a page at a time, one save for each page.
"""

from __future__ import annotations

from collections.abc import Sequence

from homing.domain import transitions
from homing.domain.delivery import Change, Delivery, State
from homing.engine.ops.writer import Signed, Writer
from homing.engine.process.process import Process
from homing.engine.queues import queue_in_generation
from homing.engine.work import family
from homing.engine.work.family import is_current, pages_of_children
from homing.ports import Facet, Query

# Not ended, and not held by a worker.
FREE: tuple[State, ...] = ("pending", "waiting")


class Children:
    def __init__(self, process: Process, writer: Writer) -> None:
        self._store = process.store
        self._clock = process.clock
        self._writer = writer

    async def replay(self, parent: Delivery, by: Signed, generation: int | None) -> None:
        def replayed(child: Delivery) -> Change | None:
            return self.replayed(child, by, generation) if child.state == "failed" else None

        def dismissed(child: Delivery) -> Change | None:
            return self.dismissed(child) if child.state == "failed" else None

        async for page in pages_of_children(self._store, parent.id, ("failed",)):
            current = [child for child in page if is_current(child, parent)]
            earlier = [child for child in page if not is_current(child, parent)]
            await self._writer.write("replay", current, replayed, by, parent=parent.id)
            await self._writer.write("dismiss", earlier, dismissed, by, parent=parent.id)

    async def first_to_cancel(self, parent: Delivery) -> Sequence[Delivery]:
        """Those that fit into the save of the parent itself: most parents have few children."""
        if not parent.fanned_out:
            return ()
        facets = tuple(Facet(state=state) for state in FREE)
        query = Query(parent_id=parent.id, facets=facets)
        return (await self._store.page(query, None, family.CHILDREN_A_PAGE - 1)).items

    async def cancel(self, parent: Delivery, by: Signed) -> None:
        """All that are still open, and their own children."""
        async for page in pages_of_children(self._store, parent.id, FREE):
            await self._writer.write("cancel", page, self.cancelled_if_free, by, parent=parent.id)
        async for page in pages_of_children(self._store, parent.id, ("dismissed",)):
            for child in page:
                if child.open_children:
                    await self.cancel(child, by)

    async def cancel_earlier(self, parent: Delivery, by: Signed) -> None:
        """Those that are still open and were made for an earlier payload of it."""
        async for page in pages_of_children(self._store, parent.id, FREE):
            earlier = [child for child in page if not is_current(child, parent)]
            for child in await self._writer.write(
                "cancel", earlier, self.cancelled_if_free, by, parent=parent.id
            ):
                if child.fanned_out:
                    await self.cancel(child, by)

    async def restore(self, parent: Delivery, by: Signed) -> None:
        def restored(child: Delivery) -> Change | None:
            was_cancelled = child.state == "dismissed" and child.failed_because is None
            with_parent = (child.ended_at_ms or 0) >= (parent.ended_at_ms or 0)
            if was_cancelled and with_parent and is_current(child, parent):
                return self.restored(child)
            return None

        async for page in pages_of_children(self._store, parent.id, ("dismissed",)):
            for child in page:
                if child.fanned_out and restored(child) is not None:
                    await self.restore(child, by)
            await self._writer.write("restore", page, restored, by, parent=parent.id)

    async def look_again(self, child: Delivery, by: Signed, generation: int | None) -> None:
        """The failed parent of a repaired child waits for its children again."""
        if child.parent_id is None:
            return
        parent = await self._store.get(child.parent_id)
        if parent is None or not is_current(child, parent):
            return

        def replayed(now: Delivery) -> Change | None:
            return self.replayed(now, by, generation) if now.state == "failed" else None

        await self._writer.write("replay", [parent], replayed, by, child=child.id)

    def replayed(self, delivery: Delivery, by: Signed, generation: int | None) -> Change:
        queue = None
        if generation is not None and self._writer.route(delivery.route).generation is not None:
            queue = queue_in_generation(delivery, generation)
        return transitions.replay(
            delivery,
            actor=by.actor,
            reason=by.reason,
            now_ms=self._clock.now_ms(),
            generation=generation,
            queue=queue,
        )

    def dismissed(self, delivery: Delivery) -> Change:
        return transitions.dismiss(delivery, now_ms=self._clock.now_ms())

    def restored(self, delivery: Delivery) -> Change:
        return transitions.restore(delivery, now_ms=self._clock.now_ms())

    def cancelled(self, delivery: Delivery) -> Change:
        plan, now_ms = self._writer.plan(delivery), self._clock.now_ms()
        return transitions.cancel(delivery, plan=plan, now_ms=now_ms)

    def cancelled_if_free(self, child: Delivery) -> Change | None:
        return self.cancelled(child) if child.state in FREE else None
