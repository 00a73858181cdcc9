"""Django: add `homing.contrib.django` to `INSTALLED_APPS`, and `HOMING = {…}` to the settings.

`from homing.contrib.django import homing` is the Homing of this project. It is created at its
first use, so that wrong settings are reported by the checks and not by an import.
"""

from __future__ import annotations

import os
from typing import cast

import django
from django.apps import apps as registry  # not our own module `apps`
from django.conf import ENVIRONMENT_VARIABLE, settings
from django.utils.functional import SimpleLazyObject, new_method_proxy

from homing.domain.errors import SettingsError
from homing.runtime.app import Homing

__all__ = ["homing"]


def _configured() -> Homing:
    if not settings.configured and not os.environ.get(ENVIRONMENT_VARIABLE):
        problem = "is not set; it names the settings of your project, such as shop.settings"
        raise SettingsError(ENVIRONMENT_VARIABLE, problem)
    if not (registry.ready or registry.loading):
        # A command with `--app`: the project's handlers are in its applications.
        django.setup()
    # Late: Django imports this package before its settings can be read.
    from homing.contrib.django.configured import configured_homing  # noqa: PLC0415

    return configured_homing()


class _LazyHoming(SimpleLazyObject):  # type: ignore[misc] # Django ships no types
    """Python looks for these on the class, past the attributes that Django passes on."""

    __aenter__ = new_method_proxy(Homing.__aenter__)
    __aexit__ = new_method_proxy(Homing.__aexit__)


homing = cast(Homing, _LazyHoming(_configured))
