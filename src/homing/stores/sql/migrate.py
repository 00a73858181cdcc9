"""Migrations: plain SQL files, applied once, in order, each with a stored checksum.

A store does not open if an applied file was edited since, or if the database is newer than this
code: in both cases the schema and the statements could differ unnoticed.

The first line of a file says what workers of the previous version may do while it is applied:
`-- old workers: go on` or `-- old workers: must stop`. They must stop if they would misread what
the new version writes, such as a mark in a column that they do not know.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.resources import files

from msgspec import Struct

from homing.domain.errors import StoreUnsafe

GO_ON = "-- old workers: go on\n"
MUST_STOP = "-- old workers: must stop\n"


class Migration(Struct, frozen=True):
    number: int
    name: str
    script: str

    @property
    def stops_old_workers(self) -> bool:
        if not self.script.startswith((GO_ON, MUST_STOP)):
            raise ValueError(
                f"migration {self.number:04}_{self.name}.sql does not begin with"
                f" {GO_ON.strip()!r} or {MUST_STOP.strip()!r}"
            )
        return self.script.startswith(MUST_STOP)

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.script.encode()).hexdigest()


@cache
def shipped(package: str) -> tuple[Migration, ...]:
    """The files of `package`/migrations, named `0001_what.sql`, in order and without a gap."""
    found = sorted(
        (file for file in files(package).joinpath("migrations").iterdir() if ".sql" in file.name),
        key=lambda file: file.name,
    )
    migrations = tuple(
        Migration(int(file.name[:4]), file.name[5:-4], file.read_text("utf-8")) for file in found
    )
    if [migration.number for migration in migrations] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {package} have a gap in their numbers")
    return migrations


def outstanding(
    migrations: tuple[Migration, ...], applied: Mapping[int, str]
) -> tuple[Migration, ...]:
    """The migrations still to be applied; `applied` maps numbers to checksums."""
    newest = max(applied, default=0)
    if newest > len(migrations):
        raise StoreUnsafe(
            f"the database has migration {newest}, this version of Homing knows only"
            f" {len(migrations)}: it was opened by a newer version; upgrade this one"
        )
    for migration in migrations:
        known = applied.get(migration.number)
        if known is not None and known != migration.checksum:
            raise StoreUnsafe(
                f"migration {migration.number:04}_{migration.name}.sql was edited after it was"
                " applied: restore the file, and put the change into a new one"
            )
    return tuple(migration for migration in migrations if migration.number not in applied)


def check_old_workers(pending: Sequence[Migration], live: Collection[str]) -> None:
    """Refuse a migration whose result the running processes would misread."""
    stopping = [migration for migration in pending if migration.stops_old_workers]
    if stopping and live:
        names = ", ".join(f"{migration.number:04}_{migration.name}" for migration in stopping)
        raise StoreUnsafe(
            f"migration {names} changes what the workers of the older version read: stop them"
            f" first, then start this one: {', '.join(sorted(live))}"
        )
