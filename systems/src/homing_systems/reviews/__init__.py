"""Reviews of changelists: fetched, judged by a model, sent to each recipient once per version.

Each stage has its own budget; a dead letter waits for an operator with its evidence.
"""

from homing_systems.reviews.plugin import PLUGIN

__all__ = ["PLUGIN"]
