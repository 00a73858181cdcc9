"""A process that has forked goes on, and its child starts anew or is told why it cannot."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from homing.stores.memory import MemoryStore
from tests.unit.sync.scripts import recipients, run

FORK = """
homing.sync.submit(mail("before"))
until(lambda: "before" in sent())
child = os.fork()
if child == 0:
    homing.sync.submit(mail("child"))
    homing.sync.stop()
    os._exit(0)
ended(child)
homing.sync.submit(mail("parent"))
until(lambda: "parent" in sent())
"""
MULTIPROCESSING = """
def work(number):
    homing.sync.submit(mail(f"child-{number}"))

homing.sync.submit(mail("before"))
with multiprocessing.get_context("fork").Pool(2) as pool:
    pool.map(work, range(4), chunksize=2)
    pool.close()
    pool.join()
homing.sync.submit(mail("parent"))
until(lambda: sent().count("example.org") == 6)
"""
KEEPS_NOTHING = """
def held():
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return [os.readlink(link) for link in links if os.path.islink(link)]

homing.sync.submit(mail("before"))
until(lambda: "before" in sent())
until(lambda: any("app.db.processes" in name for name in held()))
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.write(write, "\\n".join(held()).encode())
    os._exit(0)
ended(child)
print(os.read(read, 65536).decode())
"""
ASYNC = """
async def main():
    async with homing:
        await homing.send(mail("before"))
        child = os.fork()
        if child == 0:
            try:
                homing.engine
            except NotAllowed as refused:
                print(refused, flush=True)
            homing.sync.submit(mail("child"))
            homing.sync.stop()
            os._exit(0)
        await asyncio.to_thread(ended, child)
        await homing.send(mail("parent"))

asyncio.run(main())
"""
STOPS = """
async def main():
    async with homing:
        await homing.send(mail("before"))
        child = os.fork()
        if child == 0:
            try:
                homing.stop().send(None)
            except StopIteration:
                os._exit(0)
        await asyncio.to_thread(ended, child)
        await homing.send(mail("parent"))

asyncio.run(main())
"""
MANY = """
def submit(name):
    for number in range(40):
        homing.sync.submit(mail(f"{name}-{number}"), key=f"{name}-{number}")

threads = [threading.Thread(target=submit, args=(f"thread-{number}",)) for number in range(3)]
for thread in threads:
    thread.start()
children = []
for number in range(8):
    child = os.fork()
    if child == 0:
        homing.sync.submit(mail(f"child-{number}"))
        homing.sync.stop()
        os._exit(0)
    children.append(child)
for thread in threads:
    thread.join()
for child in children:
    ended(child)
until(lambda: sent().count("example.org") >= 128)
"""


def test_after_a_plain_fork_both_deliver(tmp_path: Path) -> None:
    run(tmp_path, FORK)
    assert recipients(tmp_path) == ["before", "child", "parent"]


def test_so_do_the_children_of_multiprocessing(tmp_path: Path) -> None:
    run(tmp_path, MULTIPROCESSING)
    assert recipients(tmp_path) == [
        "before",
        *(f"child-{number}" for number in range(4)),
        "parent",
    ]


def test_a_child_has_no_descriptor_of_the_store(tmp_path: Path) -> None:
    """Neither the database nor the checkpoint lock, the process lock or a wake-up pipe."""
    assert "app.db" not in run(tmp_path, KEEPS_NOTHING)


def test_an_async_homing_is_refused_in_the_child_and_goes_on_in_the_parent(
    tmp_path: Path,
) -> None:
    assert "process that forked this one" in run(tmp_path, ASYNC)
    assert recipients(tmp_path) == ["before", "child", "parent"]


def test_a_child_that_stops_it_stops_nothing_of_its_parent(tmp_path: Path) -> None:
    run(tmp_path, STOPS)
    assert recipients(tmp_path) == ["before", "parent"]


def test_no_fork_hooks_come_with_the_first_use(tmp_path: Path) -> None:
    """Hooks that one thread registers while another forks run only after the fork, by half."""
    script = """
print("concurrent.futures.thread" in sys.modules)
register, late = os.register_at_fork, []
os.register_at_fork = lambda **hooks: (late.append(hooks), register(**hooks))
homing.sync.submit(mail("ann"))
homing.sync.stop()
print(late)
"""
    assert run(tmp_path, script) == "True\n[]\n"


def test_forks_amid_busy_threads_lose_and_damage_nothing(tmp_path: Path) -> None:
    run(tmp_path, MANY)

    expected = [f"child-{number}" for number in range(8)]
    expected += [f"thread-{name}-{number}" for name in range(3) for number in range(40)]
    assert recipients(tmp_path) == sorted(expected)
    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
        states = "select distinct state from homing_deliveries"
        assert database.execute(states).fetchall() == [("delivered",)]


def test_what_a_parent_keeps_in_memory_is_not_delivered_by_its_child() -> None:
    store = MemoryStore()
    disk = store.disk
    store._forget_parent()
    assert store.disk is not disk


@pytest.mark.parametrize("loop", ["", "import uvloop; uvloop.install()"])
def test_a_child_that_ends_as_programs_do_disturbs_nothing(tmp_path: Path, loop: str) -> None:
    """At its end Python destroys what it has inherited."""
    script = """
homing.sync.submit(mail("before"))
until(lambda: "before" in sent())
if os.fork() == 0:
    sys.exit(0)
os.wait()
homing.sync.submit(mail("parent"))
until(lambda: "parent" in sent())
"""
    run(tmp_path, loop + script)
    assert recipients(tmp_path) == ["before", "parent"]
