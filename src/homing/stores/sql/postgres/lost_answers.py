"""What a lost statement had written, told from what is stored when it is run again."""

from __future__ import annotations

from collections.abc import Sequence

from homing.domain.writes import Write, is_stored
from homing.ports import Added, Existing, Put, PutAnswer
from homing.stores.sql.knowledge import Knowledge


def corrected(
    puts: Sequence[Put], answers: Sequence[Sequence[PutAnswer]], knowledge: Knowledge
) -> list[list[PutAnswer]]:
    """The answers to the puts, if those given were refused because the puts are stored."""
    right = [list(given) for given in answers]
    added: set[str] = set()
    # By id and by the version that was read, the first of each.
    refused: dict[str, dict[int, tuple[int, int, Write]]] = {}
    for nth, put in enumerate(puts):
        for place, write in enumerate(put.writes):
            delivery_id, answer = write.delivery.id, right[nth][place]
            if answer is False and write.over is not None:
                saves = refused.setdefault(delivery_id, {})
                saves.setdefault(write.over, (nth, place, write))
            elif isinstance(answer, Existing) and answer.delivery_id == delivery_id:
                # Taken by the very delivery that was to be added.
                if delivery_id not in added:
                    right[nth][place] = Added(delivery_id)
                added.add(delivery_id)
    for delivery_id, saves in refused.items():
        stored = knowledge.stored(delivery_id)
        last = [over for over, (_, _, write) in saves.items() if is_stored(write, stored)]
        # It, and those before it, each over the version of the other.
        over = last[0] if last else 0
        while over in saves:
            nth, place, _ = saves[over]
            right[nth][place] = True
            over -= 1
    return right
