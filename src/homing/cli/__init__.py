"""`homing`: data on stdout, logs on stderr; exit codes 0 good, 1 refused or failed, 2 usage."""

from homing.cli.main import main

__all__ = ["main"]
