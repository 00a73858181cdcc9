"""What a caller may see: the only way from REST and the console to deliveries."""

from __future__ import annotations

from homing.engine.ops.caller import CallerBulk, CallerOperations
from homing.runtime.app import Homing
from homing.web.http.callers import Caller


def ops_for(caller: Caller | None, homing: Homing) -> CallerOperations:
    """The operations of this caller. Without one, for whom nothing was proved, no personal data is
    seen."""
    sees = caller is not None and caller.sees_personal_data
    return CallerOperations.of(homing.ops, sees_personal_data=sees)


def bulk_for(caller: Caller | None, homing: Homing) -> CallerBulk:
    """The bulk actions of this caller."""
    return CallerBulk.of(homing.bulk, ops_for(caller, homing))
