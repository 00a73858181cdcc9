"""Migrations: plain SQL files, applied once, in order, each with its checksum remembered.

An applied file that was edited since stops the start, and so does a database that is newer than
this code: in both cases the schema and the statements could differ unnoticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from msgspec import Struct

from homing.domain.errors import StoreUnsafe


class Migration(Struct, frozen=True):
    number: int
    name: str
    script: str

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
        raise ValueError(f"the migrations of {package} are not numbered without a gap")
    return migrations


def outstanding(
    migrations: tuple[Migration, ...], applied: Mapping[int, str]
) -> tuple[Migration, ...]:
    """What has still to be applied; `applied` maps numbers to checksums."""
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
