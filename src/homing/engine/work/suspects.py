"""Suspects: deliveries whose holder has died. Fewer and fewer of them are tried at once.

Other work continues beside them. All suspects of a process share some permits; the more deaths a
suspect may have caused, the more of them it needs, and finally all: then it is tried alone.
"""

from __future__ import annotations

from homing.domain.delivery import Delivery
from homing.domain.transitions import suspicion

SUSPECT_PERMITS = 16
# Permits that a suspect needs, by deaths in a row: 16 suspects at once, then 4, then one alone.
_PERMITS_BY_SUSPICION = (0, 1, 4)


def is_suspect(delivery: Delivery) -> bool:
    """Whether an attempt of it may have killed its holder."""
    return delivery.unsettled_claims > 1 or delivery.interruptions > 0 or delivery.crashes > 0


def permits_for(delivery: Delivery) -> int:
    """How many suspect permits it needs; 0: it is not a suspect."""
    deaths = suspicion(delivery)
    known = deaths < len(_PERMITS_BY_SUSPICION)
    return _PERMITS_BY_SUSPICION[deaths] if known else SUSPECT_PERMITS


def is_tried_alone(delivery: Delivery) -> bool:
    return permits_for(delivery) == SUSPECT_PERMITS
