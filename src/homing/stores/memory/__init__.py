"""The reference store, in plain dictionaries: every other store must behave like it."""

from homing.stores.memory.disk import MemoryDisk
from homing.stores.memory.store import MemoryStore

__all__ = ["MemoryDisk", "MemoryStore"]
