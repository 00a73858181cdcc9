"""Which routes send nothing away from this machine, so that their mail may be shown here."""

from __future__ import annotations

from homing.engine.route import Route
from homing.ports import StaysLocal
from homing.runtime.app import Homing
from homing.web.api.intake import takes_emails


def local_routes(homing: Homing) -> list[Route]:
    """Routes for mail whose provider sends nothing away from this machine."""
    found = []
    for route in homing.engine.routes.values():
        provider: object = route.provider
        local = isinstance(provider, StaysLocal) and provider.stays_local
        if local and takes_emails(route) and homing.works_on(route.name):
            found.append(route)
    return found
