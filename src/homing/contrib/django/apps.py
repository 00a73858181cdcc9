"""The Django application."""

from __future__ import annotations

import contextlib
from typing import Any

from django.apps import AppConfig
from django.core.checks import register
from django.db import OperationalError
from django.db.backends.signals import connection_created

from homing.contrib.django.configured import own_database
from homing.domain.errors import SettingsError


class HomingConfig(AppConfig):  # type: ignore[misc] # Django ships no types
    name = "homing.contrib.django"
    label = "homing"
    verbose_name = "Homing"

    def ready(self) -> None:
        from homing.contrib.django.checks import check_homing  # noqa: PLC0415 - Django's own advice

        register(check_homing)
        connection_created.connect(use_write_ahead_log)


def use_write_ahead_log(connection: Any, **_: object) -> None:
    """Set when the connection is made: inside a transaction, where it is needed, it is too late."""
    # A wrong setting is reported by the checks, and a locked file by the submission.
    with contextlib.suppress(SettingsError, OperationalError):
        if connection.vendor == "sqlite" and connection.alias == own_database():
            with connection.cursor() as cursor:
                cursor.execute("pragma journal_mode = wal")
