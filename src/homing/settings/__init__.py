"""Settings: homing.toml and HOMING_* as one frozen value. A wrong or unknown one is an error.

Names nest by `__` in the environment (`HOMING_SERVER__PORT`); a secret may be given as a file
(`HOMING_PROVIDER_FILE`). The environment wins over the file, the file over the defaults.
"""

from homing.settings.applying import apply_to, in_force
from homing.settings.checking import check
from homing.settings.durations import Seconds, seconds, span
from homing.settings.loading import Loaded, load
from homing.settings.masking import masked
from homing.settings.tree import RouteSettings, Settings

__all__ = [
    "Loaded",
    "RouteSettings",
    "Seconds",
    "Settings",
    "apply_to",
    "check",
    "in_force",
    "load",
    "masked",
    "seconds",
    "span",
]
