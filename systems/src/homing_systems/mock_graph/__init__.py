"""A fake of Microsoft Graph for tests: its token endpoint, sendMail and drafts, by a script."""

from homing_systems.mock_graph.application import Behaviour, MockGraph
from homing_systems.mock_graph.state import State

__all__ = ["Behaviour", "MockGraph", "State"]
