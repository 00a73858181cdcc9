"""The store in plain files: one queue of lines that is only appended to, and a folder beside it."""

from homing.stores.file_url import path_of
from homing.stores.jsonl.store import JsonlStore

__all__ = ["JsonlStore", "from_url"]


def from_url(url: str) -> JsonlStore:
    """The store in the file of a URL such as `jsonl:///queue.jsonl`."""
    return JsonlStore(path_of(url, "outbox.jsonl"))
