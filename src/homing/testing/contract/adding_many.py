"""Large adds, of deliveries that are alike and of all kinds: a store may write them in parts."""

from __future__ import annotations

from msgspec import structs

from homing.domain.delivery import Fact, New, Recipient
from homing.ports import Added, Existing, Query, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.contract.population import population
from homing.testing.samples import SOURCE

SOME = 150


def keyed(count: int = 4 * SOME, prefix: str = "a") -> list[New]:
    return [samples.keyed(f"{prefix}{n:05}", f"{prefix}-{n}") for n in range(count)]


def unlike() -> list[New]:
    """Some of one kind, some of many kinds, and some with what few deliveries have."""
    odd = keyed(SOME, "odd")
    odd[1] = structs.replace(odd[1], payload=b"")
    odd[2] = structs.replace(odd[2], results={"made": b"1"})
    odd[3] = structs.replace(odd[3], facts=(Fact("kind", "3", 1, {"a": 1}),))
    odd[4] = structs.replace(odd[4], keys=())
    to_two = (Recipient("ann@example.org"), Recipient("bob@example.org"))
    odd[5] = structs.replace(odd[5], delivery=structs.replace(odd[5].delivery, recipients=to_two))
    odd[6] = structs.replace(odd[6], children=(samples.child("odd-child", odd[6].delivery.id),))
    return [*keyed(SOME), *population(SOME), *odd, *keyed(SOME, "z")]


class AddingMany(Opened):
    async def test_all_of_many_are_stored_with_their_keys(self, store: Store) -> None:
        new = keyed()
        answers = await store.add(new)
        assert answers == [Added(one.delivery.id) for one in new]
        assert await store.count(Query()) == {(): len(new)}
        for one in (new[0], new[-1]):
            assert await store.get(one.delivery.id) == one.delivery
            assert await store.find(SOURCE, one.keys[0].key) == one.keys[0]

    async def test_what_differs_is_stored_as_one_by_one(self, store: Store) -> None:
        new = unlike()
        answers = await store.add(new)
        assert answers == [Added(one.delivery.id) for one in new]
        for one in new:
            stored = await store.get(one.delivery.id)
            content = await store.content(one.delivery.id)
            assert stored is not None
            assert content is not None
            assert structs.replace(stored, open_children=0) == one.delivery
            assert (content.payload, content.results) == (one.payload, one.results)
            assert [await store.find(each.source, each.key) for each in one.keys] == [*one.keys]
        assert [fact.value for fact in await store.facts("kind")] == [{"a": 1}]
        assert await store.get("odd-child") is not None
        assert await store.count(Query()) == {(): len(new) + 1}

    async def test_a_key_that_was_taken_before_is_answered_in_its_place(self, store: Store) -> None:
        new = keyed()
        await store.add([samples.keyed("early", "a-250")])
        for kind in (Added, Existing):  # the second time every key is taken
            answers = await store.add(new)
            assert isinstance(answers[250], Existing)
            assert answers[250].delivery_id == "early"
            del answers[250]
            assert {type(answer) for answer in answers} == {kind}
            assert await store.count(Query()) == {(): len(new)}

    async def test_a_key_that_comes_again_belongs_to_the_first(self, store: Store) -> None:
        new = [*keyed(), samples.keyed("again", "a-0")]
        answers = await store.add(new)
        assert isinstance(answers[-1], Existing)
        assert answers[-1].delivery_id == new[0].delivery.id
        assert await store.count(Query()) == {(): len(new) - 1}
