"""`python -m homing`."""

from homing.cli import main

main()
