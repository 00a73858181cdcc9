"""The deterministic simulator: the real engine in virtual time, under seeded faults.

`python -m tests.simulation.simulator 100-119` runs a range of seeds; `--seed 107` tells one of
them word by word. The same seed is the same run, every time.
"""

from tests.simulation.simulator.findings import Breach, Result, last_line
from tests.simulation.simulator.options import Focus, Options, draw
from tests.simulation.simulator.runs import run_world

__all__ = ["Breach", "Focus", "Options", "Result", "draw", "last_line", "run_world"]
