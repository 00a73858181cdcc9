"""`manage.py homing_worker`: the process that delivers."""

from __future__ import annotations

from django.core.management.base import BaseCommand, CommandError

from homing.cli.running import run_app
from homing.contrib.django.configured import configured_homing
from homing.domain.errors import HomingError
from homing.plugins.programs import load_program


class Command(BaseCommand):  # type: ignore[misc] # Django ships no types
    help = "Deliver what this project has submitted, until it is stopped."

    def handle(self, **_: object) -> None:
        try:
            homing = configured_homing()
            run_app(homing, load_program().general, generation=None, with_parent=False)
        except HomingError as error:
            raise CommandError(str(error)) from error
