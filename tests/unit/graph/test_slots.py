"""Four requests per mailbox, shared by all processes of the host.

Two `Slots` open the lock files for themselves, so that they compete like two processes.
"""

import asyncio
from pathlib import Path

from homing.providers.graph.slots import MOST_REQUESTS, Slot, Slots


def two(folder: Path) -> tuple[Slots, Slots]:
    return tuple(Slots(folder / ".env", "Shop@example.org") for _ in range(2))  # type: ignore[return-value] # two of them


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def take(slots: Slots) -> Slot:
    async with asyncio.timeout(20):
        return await slots.take()


async def has_none(slots: Slots) -> bool:
    """Whether nothing is free: what is free is taken without a wait."""
    taking = asyncio.ensure_future(slots.take())
    await asyncio.sleep(0)
    is_waiting = taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    return is_waiting


async def test_the_limit_covers_all_who_share_the_file(tmp_path: Path) -> None:
    here, there = two(tmp_path)
    taken = [await slots.take() for slots in (here, there) for _ in range(MOST_REQUESTS // 2)]
    assert await has_none(here)
    assert await has_none(there)

    taken[0].release()
    taken[0].release()

    await take(there)
    assert await has_none(there)
    assert {path.stat().st_mode & 0o777 for path in files_in(tmp_path)} == {0o600}


async def test_another_mailbox_has_slots_of_its_own(tmp_path: Path) -> None:
    one, other = Slots(tmp_path / ".env", "a@x.org"), Slots(tmp_path / ".env", "b@x.org")
    for _ in range(MOST_REQUESTS):
        await one.take()

    await take(other)


async def test_a_busy_process_does_not_starve_another(tmp_path: Path) -> None:
    busy, other = two(tmp_path)
    sent = 0

    async def work() -> None:
        nonlocal sent
        while True:
            slot = await busy.take()
            await asyncio.sleep(0.002)
            slot.release()
            sent += 1

    workers = [asyncio.create_task(work()) for _ in range(8)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(20):
            for _ in range(5):
                before = sent
                slot = await other.take()
                # It waits for its turn, then for the next free slot, while a few finish.
                assert sent - before < 50
                slot.release()
    finally:
        for each in workers:
            each.cancel()


async def test_closing_gives_back_what_was_never_used(tmp_path: Path) -> None:
    here, there = two(tmp_path)
    for _ in range(MOST_REQUESTS):
        await here.take()

    here.close()

    await take(there)


async def test_without_lock_files_the_limit_holds_in_this_process(tmp_path: Path) -> None:
    slots = Slots(tmp_path / "missing" / ".env", "shop@example.org")
    for _ in range(MOST_REQUESTS):
        await slots.take()

    assert await has_none(slots)
    assert slots.problem is not None
