"""Reads a file line by line and tells lines that are whole from what is damaged between them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias

from homing.stores.jsonl.correcting import whole_parts
from homing.stores.jsonl.files import AppendFile
from homing.stores.jsonl.lines import is_foreign, is_whole, looks_finished

# Tries to correct the line of a file at this place; whether it is whole now.
Mend: TypeAlias = Callable[[AppendFile, int], bool]
Damaged: TypeAlias = tuple[int, int]
"""Where damaged bytes begin and end."""
Line: TypeAlias = tuple[int, bytes]
"""Where a line begins, and the line without its line feed."""


class Scan:
    """`lines` are the whole ones of a file after its known end; between them damage may lie.

    What is put in the place of damage is blank.
    """

    def __init__(self, file: AppendFile, mend: Mend, *, takes_foreign: bool = False) -> None:
        self._file = file
        self._mend = mend
        self._takes_foreign = takes_foreign
        self.lines = self._scan()
        # Of the last line: another program wrote it.
        self.is_foreign = False
        # Something damaged or blank was met; the reader takes the note back.
        self.has_gap = False
        self.damaged: list[Damaged] = []
        # Where the end begins that no finished write has left.
        self.torn_at: int | None = None

    def _scan(self) -> Iterator[Line]:
        place: int | None = self._file.end
        while place is not None:
            place = yield from self._scan_from(place)

    def _scan_from(self, start: int) -> Generator[Line, None, int | None]:
        """Where to continue after a line was repaired; None at the end."""
        place, is_finished = start, True
        for lines, feed in self._file.chunks(start):
            for line in lines:
                if is_whole(line) and feed:
                    yield place, line
                elif feed and not line.strip(b" "):
                    self.has_gap = True
                elif feed and self._takes_foreign and is_foreign(line):
                    self.is_foreign = True
                    yield place, line
                    self.is_foreign = False
                elif is_whole(line):
                    is_finished = False
                    self.note_damage(place, place + len(line))
                elif self._mend(self._file, place):
                    return place
                else:
                    is_finished = looks_finished(line + feed)
                    yield from self._parts(place, line + feed)
                place += len(line) + len(feed)
        if self.damaged and self.damaged[-1][1] == place and not is_finished:
            # Damage that ends with the file, and not as a line ends: a write was cut off.
            self.torn_at = self.damaged.pop()[0]
        return None

    def _parts(self, place: int, line: bytes) -> Iterator[Line]:
        """What is whole in a damaged line, with its end: the damage may have joined two lines."""
        first, second, end = whole_parts(line)
        if first:
            yield place, line[:first]
        self.note_damage(place + first, place + second)
        if second < len(line):
            yield place + second, line[second:end]

    def note_damage(self, start: int, end: int) -> None:
        """These bytes are not whole, or do not belong where they lie."""
        self.has_gap = True
        if self.damaged and self.damaged[-1][1] == start:
            start = self.damaged.pop()[0]
        self.damaged.append((start, end))
