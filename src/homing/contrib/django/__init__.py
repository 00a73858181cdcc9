"""Django: put `homing.contrib.django` into `INSTALLED_APPS`, and `HOMING = {…}` into the settings.

`from homing.contrib.django import homing` is the Homing of this project.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from homing.app import Homing

    homing: Homing


def __getattr__(name: str) -> Any:
    if name != "homing":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Late: Django imports this package before its settings can be read.
    from homing.contrib.django.configured import configured_homing  # noqa: PLC0415

    return configured_homing()
