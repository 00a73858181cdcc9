"""Wake-up signals between the processes of one host: a named pipe for each that listens.

A pipe, not a socket: the path of a Unix socket may have 108 bytes at most. A pipe without a
reader refuses to be opened for writing, so the pipes of dead processes are known.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from secrets import token_hex

from homing.stores.host.descriptors import OwnDescriptor

SUFFIX = ".wake"
DUE = b"d"
"""Something may be due now."""
SOON = b"s"
"""A transaction of a caller may make something due as soon as it commits."""
# How long the pipe is not read after two signals in so short a time: a burst is received as few.
REST_S = 0.002
_OWNER_ONLY = 0o600
_MOST_BYTES = 65_536
_STEP_OF_FILE_TIMES_NS = 100_000_000


class WakePipes:
    """Signals the listeners of a folder, from any thread; receives in one event loop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sending = threading.Lock()
        self._listeners: dict[str, OwnDescriptor] = {}
        self._listed: int | None = None
        self._own: Path | None = None
        self._pipe: OwnDescriptor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._read_at_s = float("-inf")

    def send(self, signal: bytes, *, to_own: bool = False) -> None:
        """To every listener, and with `to_own` to ourselves."""
        with self._sending:
            # Those that were known are not kept waiting for the look for others.
            known = tuple(self._listeners)
            self._write(signal, known, to_own=to_own)
            self._list()
            self._write(signal, self._listeners.keys() - set(known), to_own=to_own)

    def _write(self, signal: bytes, names: Iterable[str], *, to_own: bool) -> None:
        own = None if to_own or self._own is None else self._own.name
        for name in names:
            if name == own:
                continue
            try:
                os.write(self._listeners[name].number, signal)
            except BlockingIOError:
                pass  # full: signals are waiting in it
            except OSError:
                self._drop(name)

    def listen(self, receive: Callable[[bytes], None]) -> bool:
        """From now on `receive` is called in this loop; false where no pipe can be made."""
        if self._own is not None and os.path.exists(self._own):  # noqa: PTH110 - false, too, where the folder cannot be read
            return True
        self.close()
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            own = self._folder / f"{token_hex(8)}{SUFFIX}"
            made = own.with_suffix(".new")
            os.mkfifo(made, _OWNER_ONLY)
            # For reading and writing: with a writer of its own it never reads an end of file.
            self._pipe = OwnDescriptor(os.open(made, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
            # It has its name once it is open: until then a sender would take it for a dead one.
            made.rename(own)
            self._own, self._loop = own, asyncio.get_running_loop()
            self._loop.add_reader(self._pipe.number, self._read, receive)
        except (OSError, NotImplementedError):
            self.close()
            return False
        return True

    def close(self) -> None:
        """Stop listening, and close the pipes of the others."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(pipe.number)
            pipe.close()
        own, self._own = self._own, None
        if own is not None:
            with contextlib.suppress(OSError):
                own.unlink()
        with self._sending:
            self._close_listeners()
            self._list()  # which removes the pipes of the dead
            self._close_listeners()

    def _close_listeners(self) -> None:
        for name in tuple(self._listeners):
            self._listeners.pop(name).close()
        self._listed = None

    def _read(self, receive: Callable[[bytes], None]) -> None:
        pipe, loop = self._pipe, self._loop
        if pipe is None or loop is None:
            return
        try:
            signals = os.read(pipe.number, _MOST_BYTES)
        except BlockingIOError:
            return
        receive(signals)
        before_s, self._read_at_s = self._read_at_s, loop.time()
        if self._read_at_s - before_s < REST_S:
            loop.remove_reader(pipe.number)
            loop.call_later(REST_S, self._listen_again, pipe, receive)

    def _listen_again(self, pipe: OwnDescriptor, receive: Callable[[bytes], None]) -> None:
        if pipe is self._pipe and self._loop is not None:
            self._loop.add_reader(pipe.number, self._read, receive)

    def _list(self) -> None:
        """Open the pipes that have come since; the folder's time tells whether there are any."""
        with contextlib.suppress(OSError):  # no folder: no listeners
            changed_ns = os.stat(self._folder).st_mtime_ns  # noqa: PTH116 - after each commit
            if changed_ns != self._listed:
                self._list_anew(changed_ns)

    def _list_anew(self, changed_ns: int) -> None:
        # File times move in steps: a pipe that comes within this step would not show.
        is_settled = time.time_ns() - changed_ns > _STEP_OF_FILE_TIMES_NS
        self._listed = changed_ns if is_settled else None
        names = {path.name for path in self._folder.glob(f"*{SUFFIX}")}
        for name in self._listeners.keys() - names:
            self._listeners.pop(name).close()
        for name in sorted(names - self._listeners.keys()):
            self._open(name)

    def _open(self, name: str) -> None:
        path = self._folder / name
        try:
            number = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no reader: its process is dead
                path.unlink(missing_ok=True)
            return
        self._listeners[name] = OwnDescriptor(number)

    def _drop(self, name: str) -> None:
        """Its process has died: the pipe has no reader any more."""
        self._listeners.pop(name).close()
        with contextlib.suppress(OSError):
            (self._folder / name).unlink()
