"""Disks that can be filled and cut off: mounted where that is allowed, imitated where it is not."""

from __future__ import annotations

import contextlib
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class MountRefused(Exception):
    """Not root, or a container that lets nobody mount."""


class SmallDisk(Protocol):
    folder: Path
    # Who has no room where a disk is only imitated; this process, unless told.
    pid: int

    def fill(self, *, leave_bytes: int = 0) -> None:
        """From now on there is hardly any room."""

    def free(self) -> None:
        """And now there is again."""


class SmallMount:
    """A file system of its own, filled by a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pid = 0
        self._ballast = folder / "ballast"

    def fill(self, *, leave_bytes: int = 0) -> None:
        room = shutil.disk_usage(self.folder).free - leave_bytes
        with self._ballast.open("wb") as ballast:
            ballast.write(bytes(max(room, 0)))

    def free(self) -> None:
        self._ballast.unlink()


class SmallFiles:
    """A limit on the size of every file of one process: at that of the log which grows, or else
    at the largest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pid = 0
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, *, leave_bytes: int = 0) -> None:
        files = list(self.folder.glob("*-wal")) or self.folder.iterdir()
        size = max((file.stat().st_size for file in files), default=0)
        limits = (size + leave_bytes, self._limits[1])
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, limits)

    def free(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it may be dead
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, self._limits)


@contextlib.contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[SmallDisk]:
    try:
        with mounted(folder, "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs") as place:
            yield SmallMount(place)
    except MountRefused:
        folder.mkdir(exist_ok=True)
        files = SmallFiles(folder)
        try:
            yield files
        finally:
            files.free()


@contextlib.contextmanager
def mounted(folder: Path, *what: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    if not _succeeds("mount", *what, str(folder)):
        raise MountRefused
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def make_image(image: Path, size_bytes: int) -> None:
    """An empty file system in a file."""
    with image.open("wb") as file:
        file.truncate(size_bytes)
    if not _succeeds("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0", str(image)):
        raise MountRefused


def cut_power(image: Path, copy: Path) -> None:
    """The copy holds what had reached the disk, and nothing that was only in memory."""
    subprocess.run(["cp", "--sparse=always", str(image), str(copy)], check=True)


def _succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def in_memory() -> Iterator[Path]:
    """A folder whose files need no disk, for many lives in a row that no power cut ends."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        yield Path(folder)
