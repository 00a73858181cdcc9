"""Starting the adder, and asking a store for what it acknowledged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from homing.ports import Store
from homing.testing.samples import SOURCE
from tests.faults.stores import store_at

ROOT = Path(__file__).parents[2]


def adder(path: Path, prefix: str, *, callers: int, count: int = 0) -> list[str]:
    """The command; a count of 0 goes on until it is killed."""
    arguments = (str(path), prefix, str(callers), str(count))
    return [sys.executable, "-m", "tests.faults.adder", *arguments]


def start(command: list[str]) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def run(command: list[str]) -> list[str]:
    """Everything it said, until it ended by itself."""
    process = start(command)
    try:
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    return said.split("\n")[:-1]


def acknowledged(said: Iterable[str]) -> list[str]:
    return [line for line in said if line != "ready" and not line.startswith("!")]


async def missing(path: Path, ids: Iterable[str]) -> list[str]:
    """Which of these the store does not have whole: record, payload and key (I1, I2)."""
    store = store_at(path)
    await store.open()
    try:
        return [delivery_id for delivery_id in ids if not await _has(store, delivery_id)]
    finally:
        await store.close()


async def _has(store: Store, delivery_id: str) -> bool:
    content = await store.content(delivery_id)
    key = await store.find(SOURCE, delivery_id)
    return (
        await store.get(delivery_id) is not None
        and content is not None
        and content.payload == delivery_id.encode() * 20
        and key is not None
        and key.delivery_id == delivery_id
    )
