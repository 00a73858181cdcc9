"""Blocks as insert statements."""

from __future__ import annotations

from functools import cache
from itertools import chain, count

from homing.stores.sql.blocks import Block
from homing.stores.sql.sqlite.session import Session

WIDEST = 256


def insert(session: Session, block: Block, base: int | None = None, tail: str = "") -> None:
    """With a `base`, the rows are numbered from there on, and the block has no `seq`.

    The rows have to be new, unless the `tail` of the statement says what becomes of others.
    """
    shared, varying = tuple(block.shared), tuple(block.varying)
    lists = [*block.varying.values()]
    for start in range(0, block.number, WIDEST):
        number = min(WIDEST, block.number - start)
        # Eight widths between a power of two and the next: few statements to keep prepared.
        filler = -number % (1 << max(0, (number - 1).bit_length() - 4))
        part = lists if block.number <= WIDEST else [one[start : start + WIDEST] for one in lists]
        numbering = () if base is None else (base + start,)
        statement = _statement(
            block.table, (*("seq" for _ in numbering), *shared), varying, number + filler, tail
        )
        rows = chain.from_iterable(zip(*part, strict=True))
        filling = (0,) * (filler * len(varying))
        session.run(statement, (number, *numbering, *block.shared.values(), *rows, *filling))


@cache
def _statement(
    table: str, shared: tuple[str, ...], varying: tuple[str, ...], width: int, tail: str
) -> str:
    """Shared values come before the others. The last condition passes over filling rows."""
    number = count(2)
    values = {name: f"?{next(number)}" for name in shared}
    if "seq" in values:
        values["seq"] += " + v.column1"
    values |= {name: f"v.column{nth}" for nth, name in enumerate(varying, 2)}
    rows = ", ".join(
        f"({', '.join([str(nth), *[f'?{next(number)}' for _ in varying]])})"
        for nth in range(1, width + 1)
    )
    return (
        f"insert into {table} ({', '.join(values)}) select {', '.join(values.values())}"  # noqa: S608 - of constants
        f" from (values {rows}) as v where v.column1 <= ?1 {tail}"
    )
