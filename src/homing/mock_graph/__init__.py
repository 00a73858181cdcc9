"""A fake of Microsoft Graph for tests: its token endpoint, sendMail and drafts, by a script."""

from homing.mock_graph.application import Behaviour, MockGraph
from homing.mock_graph.state import State

__all__ = ["Behaviour", "MockGraph", "State"]
