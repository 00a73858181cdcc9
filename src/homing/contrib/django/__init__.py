"""Django: put `homing.contrib.django` into `INSTALLED_APPS`, and `HOMING = {…}` into the settings.

`from homing.contrib.django import homing` is the Homing of this project. It is made when it is
first used, so that wrong settings are reported by the checks and not by an import.
"""

from __future__ import annotations

from typing import cast

from django.utils.functional import SimpleLazyObject

from homing.app import Homing

__all__ = ["homing"]


def _configured() -> Homing:
    # Late: Django imports this package before its settings can be read.
    from homing.contrib.django.configured import configured_homing  # noqa: PLC0415

    return configured_homing()


homing = cast(Homing, SimpleLazyObject(_configured))
