"""The store in plain files: one queue of lines that is only appended to, and a folder beside it."""

from homing.stores.jsonl.store import JsonlStore

__all__ = ["JsonlStore"]
