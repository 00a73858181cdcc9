"""What may happen in a history: small plans, made into calls when their time comes."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import Change, Delivery, Key, New, State
from homing.ports import Claim, PurgeKind, PurgeRule
from homing.testing import samples
from homing.testing.contract.history import History


class Draft(Struct, frozen=True):
    """A delivery to be made in a slot, perhaps under a key, perhaps with children."""

    slot: int
    state: State
    queue: int
    priority: int
    due_in_ms: int
    key: int | None
    key_lasts_ms: int | None
    children: tuple[int, ...] = ()

    def new(self, history: History, parent_id: str | None = None) -> New:
        delivery = self._delivery(history, parent_id)
        keys: tuple[Key, ...] = ()
        if self.key is not None:
            lasts_ms = self.key_lasts_ms
            end_ms = None if lasts_ms is None else history.now_ms + lasts_ms
            keys = (Key(history.name, str(self.key), delivery.id, f"f{self.slot}", end_ms),)
        children = tuple(
            replace(self, slot=slot, state="pending", key=None, children=()).new(
                history, delivery.id
            )
            for slot in self.children
        )
        facts = (history.fact(f"added {self.slot}"),)
        return New(delivery, f"{delivery.id}@{history.now_ms}".encode(), keys, children, facts)

    def _delivery(self, history: History, parent_id: str | None) -> Delivery:
        has_ended = self.state in ("delivered", "failed", "dismissed")
        return samples.delivery(
            history.id_of(self.slot),
            route=history.name,
            queue=history.queue(self.queue),
            priority=self.priority,
            state=self.state,
            source=history.name,
            key=None if self.key is None else str(self.key),
            created_at_ms=history.now_ms,
            updated_at_ms=history.now_ms,
            due_at_ms=None if has_ended else history.now_ms + self.due_in_ms,
            ended_at_ms=history.now_ms if has_ended else None,
            holder="w1" if self.state == "in_flight" else None,
            parent_id=parent_id,
        )


class Add(Struct, frozen=True):
    handle: int
    drafts: tuple[Draft, ...]

    async def happen(self, history: History) -> None:
        news = [draft.new(history) for draft in self.drafts]
        await history.same(self.handle, "add", news, [history.fact("add called")])


class Take(Struct, frozen=True):
    """A claim, and perhaps a longer lease for what was got."""

    handle: int
    worker: str
    limit: int
    queues: tuple[int, ...]
    lease_ms: int
    protects_w1: bool
    renews: bool

    async def happen(self, history: History) -> None:
        wish = Claim(
            worker=self.worker,
            now_ms=history.now_ms,
            lease_until_ms=history.now_ms + self.lease_ms,
            limit=self.limit,
            queues=tuple(history.queue(number) for number in self.queues),
            alive_holders=frozenset({"w1"} if self.protects_w1 else ()),
        )
        taken = await history.same(self.handle, "claim", wish)
        if self.renews:
            held = [(one.delivery.id, one.delivery.version) for one in taken]
            held.append((history.id_of(0), 2))
            until_ms = history.now_ms + 2 * self.lease_ms
            await history.same(1 - self.handle, "renew", self.worker, held, until_ms)


class Edit(Struct, frozen=True):
    """A change of whatever is in a slot; `behind` makes it come too late."""

    slot: int
    behind: bool
    state: State
    due_in_ms: int
    attempt: int | None
    result: str | None
    drops: bool
    amends: bool
    child: int | None
    closes: bool
    forgets: bool
    has_notice_due: bool

    async def change(self, history: History, sign: int) -> Change | None:
        before = await history.reference.get(history.id_of(self.slot))
        if before is None:
            return None
        has_ended = self.state in ("delivered", "failed", "dismissed")
        after = replace(
            before,
            version=before.version - self.behind,
            state=self.state,
            holder="w2" if self.state == "in_flight" else None,
            due_at_ms=None if has_ended else history.now_ms + self.due_in_ms,
            updated_at_ms=history.now_ms,
            ended_at_ms=history.now_ms if has_ended else None,
            payload_no=before.payload_no + self.amends,
            notices_due=("alert",) if self.has_notice_due else (),
        )
        attempt = samples.attempt(before.id, self.attempt or 0, ended_at_ms=history.now_ms)
        made = str(history.now_ms).encode()
        return Change(
            after,
            ended=() if self.attempt is None else (attempt,),
            results={} if self.result is None else {self.result: made},
            drop_results=self.drops,
            payload=made if self.amends else None,
            children=() if self.child is None else (self._child(history, before, self.child),),
            child_delta=sign if self.closes else 0,
            facts=(history.fact(f"saved {self.slot}"),),
            forget=self.forgets,
        )

    @staticmethod
    def _child(history: History, parent: Delivery, slot: int) -> New:
        draft = Draft(slot, "pending", 1, 2, 0, key=None, key_lasts_ms=None)
        return draft.new(history, parent.id)


class Save(Struct, frozen=True):
    handle: int
    edits: tuple[Edit, ...]
    # One sign for the whole call: a store may add up the children that end or open in it, or
    # count them one by one.
    sign: int

    async def happen(self, history: History) -> None:
        made = [await edit.change(history, self.sign) for edit in self.edits]
        changes = [change for change in made if change is not None]
        await history.same(self.handle, "save", changes, [history.fact("save called")])


class Pass(Struct, frozen=True):
    """Time."""

    by_ms: int

    async def happen(self, history: History) -> None:
        history.now_ms += self.by_ms


class Purge(Struct, frozen=True):
    handle: int
    what: PurgeKind
    states: tuple[State, ...]

    async def happen(self, history: History) -> None:
        rule = PurgeRule(
            what=self.what,
            before_ms=history.now_ms,
            route=history.name,
            states=self.states,
            fact_kind=history.name,
        )
        await history.same(self.handle, "purge", rule)


Event: TypeAlias = Add | Take | Save | Pass | Purge
