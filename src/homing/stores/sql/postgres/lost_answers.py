"""What a lost statement had written, told from what is stored when it is run again."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from homing.domain.delivery import Delivery
from homing.domain.writes import Write
from homing.ports import Added, Existing, Put, PutAnswer
from homing.stores.sql.knowledge import Knowledge


def corrected(
    puts: Sequence[Put], answers: Sequence[Sequence[PutAnswer]], knowledge: Knowledge
) -> list[list[PutAnswer]]:
    """The answers to the puts, if those given were refused because the puts are stored."""
    right = [list(given) for given in answers]
    added: set[str] = set()
    refused: dict[str, list[tuple[int, int, Write]]] = {}
    for nth, put in enumerate(puts):
        for place, write in enumerate(put.writes):
            delivery_id, answer = write.delivery.id, right[nth][place]
            if answer is False:
                refused.setdefault(delivery_id, []).append((nth, place, write))
            elif isinstance(answer, Existing) and answer.delivery_id == delivery_id:
                # Taken by the very delivery that was to be added.
                if delivery_id not in added:
                    right[nth][place] = Added(delivery_id)
                added.add(delivery_id)
    for delivery_id, saves in refused.items():
        stored = knowledge.stored(delivery_id)
        last = next((one for one in saves if _is_written(one[2], stored)), None)
        for one in reversed(saves):
            # It, and those before it, each over the version of the other.
            if last is not None and (one is last or one[2].over == (last[2].over or 0) - 1):
                last = one
                right[one[0]][one[1]] = True
    return right


def _is_written(write: Write, stored: Delivery | None) -> bool:
    if stored is None:
        return write.removes
    written = replace(
        write.delivery,
        version=write.delivery.version + 1,
        open_children=stored.open_children,
        due_at_ms=stored.due_at_ms
        if write.due_at_zero_ms is not None
        else write.delivery.due_at_ms,
    )
    return written == stored
