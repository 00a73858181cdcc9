"""Paging: newest first, by a cursor that stays true while others write."""

from __future__ import annotations

import pytest

from homing.domain.delivery import Change
from homing.ports import Cursor, Facet, Query, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.samples import NOW_MS


async def walk(store: Store, query: Query, limit: int) -> list[list[str]]:
    """The ids of each page, to the end."""
    pages: list[list[str]] = []
    cursor: Cursor | None = None
    while not pages or cursor is not None:
        page = await store.page(query, cursor, limit)
        pages.append([d.id for d in page.items])
        cursor = page.next
    return pages


class Paging(Opened):
    async def test_newest_first_then_by_id_downwards(self, store: Store) -> None:
        """Ids are compared by code point, as everywhere."""
        made = [("b", 1), ("a", 2), ("c", 2), ("B", 2), ("ä", 2), ("d", 0)]
        await store.add([samples.new(name, created_at_ms=NOW_MS + at) for name, at in made])

        page = await store.page(Query())

        assert [d.id for d in page.items] == ["ä", "c", "a", "B", "b", "d"]
        assert page.next is None

    @pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 7, 100])
    async def test_each_is_seen_once_whatever_the_size_of_the_page(
        self, store: Store, limit: int
    ) -> None:
        await store.add(samples.many(6, created_at_ms=NOW_MS))

        pages = await walk(store, Query(), limit)

        assert [name for page in pages for name in page] == [
            f"d0000{n}" for n in (5, 4, 3, 2, 1, 0)
        ]
        # No page is empty and none is short but the last: the end is known when it is reached.
        assert len(pages) == -(-6 // limit)
        assert {len(page) for page in pages[:-1]} <= {limit}

    async def test_the_cursor_is_the_last_item_seen(self, store: Store) -> None:
        await store.add(samples.many(3))

        page = await store.page(Query(), limit=2)

        assert page.next == Cursor(NOW_MS, "d00001")

    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
    async def test_the_way_back_leads_over_the_same_pages(self, store: Store, limit: int) -> None:
        await store.add(samples.many(7, created_at_ms=NOW_MS))
        down = [await store.page(Query(), limit=limit)]
        while down[-1].next is not None:
            down.append(await store.page(Query(), down[-1].next, limit))
        assert down[0].previous is None

        up = [down[-1]]
        while up[-1].previous is not None:
            up.append(await store.page(Query(), up[-1].previous, limit))

        assert [page.items for page in up[1:]] == [page.items for page in down[-2::-1]]
        assert [page.next for page in up[1:]] == [page.next for page in down[-2::-1]]

    async def test_the_way_back_shows_what_came_since(self, store: Store) -> None:
        await store.add(samples.many(4, prefix="m", created_at_ms=NOW_MS))
        first = await store.page(Query(), limit=2)
        second = await store.page(Query(), first.next, limit=2)
        await store.add([samples.new("newer", created_at_ms=NOW_MS + 1)])

        page = await store.page(Query(), second.previous, limit=2)
        assert [d.id for d in page.items] == ["m00003", "m00002"]
        top = await store.page(Query(), page.previous, limit=2)

        assert [d.id for d in top.items] == ["newer"]
        assert top.previous is None
        assert top.next == Cursor(NOW_MS + 1, "newer")

    async def test_the_oldest_one_is_found_from_below(self, store: Store) -> None:
        await store.add(samples.many(4))
        page = await store.page(Query(), Cursor(0, "", newer=True), limit=1)
        assert [d.id for d in page.items] == ["d00000"]
        above = await store.page(Query(), Cursor(NOW_MS, "z", newer=True))
        assert above.items == ()

    async def test_inserts_neither_repeat_nor_hide_anything(self, store: Store) -> None:
        await store.add(samples.many(6, prefix="m", created_at_ms=NOW_MS))
        first = await store.page(Query(), limit=3)
        await store.add(
            [
                samples.new("newer", created_at_ms=NOW_MS + 1),
                samples.new("m00004a", created_at_ms=NOW_MS),
                samples.new("m00001a", created_at_ms=NOW_MS),
                samples.new("older", created_at_ms=NOW_MS - 1),
            ]
        )

        rest = await store.page(Query(), first.next, limit=50)

        assert [d.id for d in first.items] == ["m00005", "m00004", "m00003"]
        assert [d.id for d in rest.items] == ["m00002", "m00001a", "m00001", "m00000", "older"]

    async def test_a_cursor_outlives_its_item(self, store: Store) -> None:
        await store.add(samples.many(4))
        page = await store.page(Query(), limit=2)
        gone = await store.get("d00002")
        assert gone is not None
        from_cursor = Cursor(NOW_MS, "d00002")
        assert page.next == from_cursor
        await store.save([Change(gone, forget=True)])

        rest = await store.page(Query(), from_cursor)

        assert [d.id for d in rest.items] == ["d00001", "d00000"]

    async def test_a_cursor_anywhere_is_a_place_in_the_order(self, store: Store) -> None:
        await store.add(samples.many(3, created_at_ms=NOW_MS))

        async def below(at_ms: int, delivery_id: str) -> int:
            return len((await store.page(Query(), Cursor(at_ms, delivery_id))).items)

        assert await below(NOW_MS + 1, "") == 3
        assert await below(NOW_MS, "z") == 3
        assert await below(NOW_MS, "d00001x") == 2
        assert await below(NOW_MS, "") == 0
        assert await below(NOW_MS - 1, "z") == 0

    async def test_filters_hold_on_every_page(self, store: Store) -> None:
        for number in range(12):
            route = "mail" if number % 3 else "jobs"
            await store.add([samples.new(f"d{number:02}", route=route, topic=f"t{number % 2}")])
        query = Query(route="mail", topic="t1", facets=(Facet(state="pending"),))

        pages = await walk(store, query, limit=3)

        assert pages == [["d11", "d07", "d05"], ["d01"]]

    async def test_a_delivery_that_changes_keeps_its_place(self, store: Store) -> None:
        await store.add(samples.many(4))
        first = await store.page(Query(), limit=2)
        (held, *_) = await store.claim(samples.claim(at_ms=NOW_MS + 500))
        await store.save([samples.ended(held.delivery, at_ms=NOW_MS + 900)])

        rest = await store.page(Query(), first.next)

        assert [d.id for d in rest.items] == ["d00001", "d00000"]
