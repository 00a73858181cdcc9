"""Flask: the command `flask homing-worker`, and Homing as an extension of the application."""

from __future__ import annotations

from flask import Flask

from homing.cli.running import run_app
from homing.plugins.programs import load_program
from homing.runtime.app import Homing


def init_app(app: Flask, homing: Homing) -> None:
    """Views use `homing.sync`, or `current_app.extensions["homing"].sync`."""
    app.extensions["homing"] = homing

    @app.cli.command("homing-worker", help="Deliver what this application has submitted.")
    def work() -> None:
        run_app(homing, load_program().general, generation=None, with_parent=False)
