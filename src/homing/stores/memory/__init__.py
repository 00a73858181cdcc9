"""The reference store: what every other store must do, in plain dictionaries."""

from homing.stores.memory.disk import MemoryDisk
from homing.stores.memory.store import MemoryStore

__all__ = ["MemoryDisk", "MemoryStore"]
