"""What the processes of one host share beside a store: process locks and wake-up signals."""

from homing.stores.host.locks import ProcessLocks
from homing.stores.host.pipes import WakePipes

__all__ = ["ProcessLocks", "WakePipes"]
