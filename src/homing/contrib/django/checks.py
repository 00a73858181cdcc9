"""System checks: `manage.py check` reports what would fail later."""

from __future__ import annotations

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import connections

from homing.content.senders import Senders
from homing.contrib.django.configured import APP, configured, configured_homing, own_database
from homing.domain.errors import HomingError, InvalidRequest
from homing.domain.message import Email


def check_homing(**_: object) -> list[CheckMessage]:
    try:
        configured_homing()
        alias = own_database()
        senders = _check_senders()
    except HomingError as error:
        return [Error(str(error), id="homing.E001")]
    return senders if alias is None else senders + _check_database(alias)


def _check_senders() -> list[CheckMessage]:
    """Django itself sends from these: a refusal would be noticed only when a mail is missing."""
    if not settings.EMAIL_BACKEND.startswith(APP):
        return []
    given = configured()
    allowed = Senders(given.sender, given.allowed_senders)
    names = ["DEFAULT_FROM_EMAIL"]
    if settings.ADMINS or settings.MANAGERS:
        names.append("SERVER_EMAIL")
    found: list[CheckMessage] = []
    for name in names:
        address = getattr(settings, name)
        try:
            allowed.checked(Email(sender=address))
        except InvalidRequest as refused:
            found.append(
                CheckWarning(
                    f"Mail from {name} ({address}) will be refused: {refused}.",
                    hint=f"Add it to HOMING['ALLOWED_SENDERS'], or change {name}.",
                    id="homing.W002",
                )
            )
    return found


def _check_database(alias: str) -> list[CheckMessage]:
    if connections[alias].vendor != "sqlite":
        return []
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
