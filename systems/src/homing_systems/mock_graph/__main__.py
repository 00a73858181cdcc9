"""`python -m homing_systems.mock_graph`."""

from homing_systems.mock_graph.program import main

main()
