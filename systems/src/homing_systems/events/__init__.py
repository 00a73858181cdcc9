"""An event outbox: events written with the producer's own change, handled at least once.

A dead letter stays in its row and is replayed in place, with its history kept.
"""

from homing_systems.events.plugin import PLUGIN

__all__ = ["PLUGIN"]
