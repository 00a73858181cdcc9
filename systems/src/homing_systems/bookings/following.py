"""What another program has done to a row of `email_outbox`, done to its mail."""

from __future__ import annotations

from homing import Homing
from homing.domain.delivery import Delivery
from homing.domain.errors import NotAllowed
from homing.stores.layout import Record

TABLE = "email_outbox"


async def follow(homing: Homing, mail: Delivery, row: Record | None, by: str) -> None:
    """A failed mail is dismissed if its row was deleted, and retried if that is pending again."""
    who = by or TABLE
    if mail.state == "failed" and row is None:
        await homing.ops.dismiss(mail.id, actor=who, reason=TABLE)
    elif mail.state == "failed" and row is not None and row["status"] == "pending":
        await homing.ops.replay(mail.id, actor=who, reason=TABLE)
    else:
        raise NotAllowed("only a failed row is deleted or made pending: it is written again")
