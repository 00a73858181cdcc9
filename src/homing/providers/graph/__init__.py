"""Mail through Microsoft Graph: a refresh token in a file, at most four requests at once."""

from homing.providers.graph.provider import GraphProvider
from homing.providers.graph.settings import GraphSettings, settings_from

__all__ = ["GraphProvider", "GraphSettings", "settings_from"]
