"""What a process writes and syncs, and in which order: without the syncs a power cut loses it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Calls = list[tuple[str, Path]]


def recorded(patch: pytest.MonkeyPatch) -> Calls:
    """From now on, each call with the file or folder that it is about."""
    calls: Calls = []

    def watch(name: str, path_of: Callable[..., str]) -> None:
        real = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            path = Path(path_of(*arguments))
            answer = real(*arguments, **options)
            calls.append((name, path))
            return answer

        patch.setattr(os, name, call)

    for name in ("fsync", "fdatasync", "write", "ftruncate"):
        watch(name, lambda descriptor, *_: str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    # Where the file has its new name.
    for name in ("rename", "replace"):
        watch(name, lambda _, new: os.path.realpath(new))
    return calls
