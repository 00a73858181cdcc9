"""Search: an id, a recipient, a key, or words of an error, whichever the text is."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from homing.domain.delivery import Delivery
from homing.engine.ops.bounded import page_within
from homing.engine.process.counters import MAX_SOURCES, SOURCES
from homing.ports import Facet, Query, Store

RESEND_SOURCE = "operator_resend"
# By `address/delivery id`: an address that was amended away, so that its mail is still found.
FORMER_RECIPIENT = "former_recipient"
# How many of the newest dead letters are searched for words: their texts have no index.
LOOKED_THROUGH = 2000
# How many of the newest deliveries are read for their sources, besides those that processes have
# stored.
SOURCES_OF = 200

Matched: TypeAlias = Literal["id", "recipient", "key", "error", "nothing"]


class SearchResult(Struct, frozen=True):
    """What the text matched, and the newest matching deliveries."""

    matched: Matched
    deliveries: tuple[Delivery, ...] = ()
    more: bool = False


async def search(store: Store, text: str, address: str | None, limit: int) -> SearchResult:
    """`address` is the text in the form in which recipients are stored; None: recipients are not
    searched."""
    one = await store.get(text)
    if one is not None:
        return SearchResult("id", (one,))
    by_address = None if address is None else await _by_recipient(store, address, limit)
    if by_address is not None:
        return by_address
    by_key = await _by_known_key(store, text)
    if by_key:
        return SearchResult("key", tuple(by_key[:limit]), len(by_key) > limit)
    by_words = await _by_words(store, text.lower().split())
    if by_words:
        return SearchResult("error", tuple(by_words[:limit]), len(by_words) > limit)
    # The key may have expired, or its source may be unknown. Keys without their source have no
    # index: only the newest deliveries are searched.
    page = await page_within(store, Query(key=text), None, limit)
    if page.items:
        return SearchResult("key", page.items, page.next is not None)
    return SearchResult("nothing")


async def _by_recipient(store: Store, address: str, limit: int) -> SearchResult | None:
    page = await store.page(Query(recipient=address), None, limit)
    room = limit - len(page.items)
    former = await former_ids(store, address, room) if room > 0 else ()
    amended = [one for one in await store.get_many(former) if one is not None]
    if not page.items and not amended:
        return None
    return SearchResult("recipient", (*page.items, *amended), page.next is not None)


async def former_ids(store: Store, address: str, limit: int) -> list[str]:
    """The ids of deliveries that were amended to go to others than this address."""
    facts = await store.facts(FORMER_RECIPIENT, f"{address}/", limit, order="newest")
    return [fact.key.removeprefix(f"{address}/") for fact in facts]


async def _by_known_key(store: Store, key: str) -> list[Delivery]:
    newest = await store.page(Query(), None, SOURCES_OF)
    known = await store.facts(SOURCES, limit=MAX_SOURCES, order="newest")
    sources = {
        *("", RESEND_SOURCE),
        *(delivery.source for delivery in newest.items),
        *(fact.key for fact in known),
    }
    keys = [await store.find(source, key) for source in sorted(sources)]
    found = await store.get_many([each.delivery_id for each in keys if each is not None])
    deliveries = [delivery for delivery in found if delivery is not None]
    return sorted(deliveries, key=lambda each: (each.created_at_ms, each.id), reverse=True)


async def _by_words(store: Store, words: list[str]) -> list[Delivery]:
    page = await store.page(Query(facets=(Facet(state="failed"),)), None, LOOKED_THROUGH)
    return [delivery for delivery in page.items if words and _says(delivery, words)]


def _says(delivery: Delivery, words: list[str]) -> bool:
    failure = delivery.failure
    if failure is None:
        return False
    said = f"{failure.error_class} {failure.code or ''} {failure.detail or ''}".lower()
    return all(word in said for word in words)
