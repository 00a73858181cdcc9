"""The HTTP side of `homing serve`: REST intake, operator REST, the operator console."""
