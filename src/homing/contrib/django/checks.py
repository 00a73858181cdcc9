"""System checks: what would fail later is said by `manage.py check`."""

from __future__ import annotations

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import connections

from homing.contrib.django.configured import configured_homing, own_database
from homing.domain.errors import HomingError


def check_homing(**_: object) -> list[CheckMessage]:
    try:
        configured_homing()
        alias = own_database()
    except HomingError as error:
        return [Error(str(error), id="homing.E001")]
    return [] if alias is None else _check_database(alias)


def _check_database(alias: str) -> list[CheckMessage]:
    options = connections[alias].settings_dict.get("OPTIONS", {})
    if str(options.get("transaction_mode", "")).upper() == "IMMEDIATE":
        return []
    return [
        CheckWarning(
            f"Transactions of database {alias!r} take the write lock late: one that reads before"
            " it submits can fail with 'database is locked'.",
            hint=f'Set DATABASES[{alias!r}]["OPTIONS"]["transaction_mode"] to "IMMEDIATE".',
            id="homing.W001",
        )
    ]
