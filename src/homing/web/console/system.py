"""How the service is set up: the audit, who has access, the settings in force, and the doctor."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from starlette.responses import Response

from homing.domain.delivery import Fact
from homing.engine.access.tokens import RIGHTS, Role
from homing.engine.ops.reader import AUDIT
from homing.engine.ops.verbs import past_of
from homing.engine.ops.views import AuditView, audit_view
from homing.runtime.app import Homing
from homing.web.api.inspection import Inspection
from homing.web.console.rendering import Rendering
from homing.web.console.visits import Page, Visit
from homing.web.http.reading import whole_number

PAGE = 50
AUDIT_FIELDS = frozenset({"after", "at_ms"})


# What each right allows, in the order in which they are named.
MAY = {
    "read": "sees deliveries and routes",
    "send": "submits deliveries",
    "operate": "replays, dismisses, amends and pauses",
    "administer": "sees access, settings and doctor",
}


class Act(Struct, frozen=True):
    """An entry of the audit with what it is about: a delivery, or a route."""

    entry: AuditView
    does: str
    delivery_id: str | None
    route: str | None


class System:
    def __init__(self, homing: Homing, inspection: Inspection, rendering: Rendering) -> None:
        self._homing = homing
        self._inspection = inspection
        self._rendering = rendering

    def pages(self) -> Iterable[Page]:
        return (
            Page("GET", "/audit", "read", self.audit),
            Page("GET", "/access", "administer", self.access),
            Page("GET", "/settings", "administer", self.settings),
            Page("GET", "/doctor", "administer", self.doctor),
            Page("POST", "/doctor", "administer", self.examine),
        )

    async def audit(self, visit: Visit) -> Response:
        """Newest first."""
        fields = visit.query(AUDIT_FIELDS)
        after = None
        if "after" in fields:
            after = Fact(AUDIT, fields["after"], whole_number(fields, "at_ms") or 0)
        facts = await visit.ops.audit_log(after, PAGE)
        acts = []
        for fact in facts:
            about = fact.key.rpartition("/")[0]
            route = about.removeprefix("route:") if about.startswith("route:") else None
            entry = audit_view(fact)
            acts.append(Act(entry, past_of(entry.verb), about if route is None else None, route))
        last = facts[-1] if len(facts) == PAGE else None
        return self._rendering.page(visit, "audit.html", place="audit", acts=acts, last=last)

    async def access(self, visit: Visit) -> Response:
        visit.query(frozenset())
        used = await self._homing.tokens.last_uses()
        tokens = [(each, used.get(each.digest)) for each in await self._homing.tokens.all()]
        return self._rendering.page(
            visit,
            "access.html",
            place="access",
            users=await self._homing.users.all(),
            tokens=tokens,
            roles=[(role, _may(role)) for role in RIGHTS],
        )

    async def settings(self, visit: Visit) -> Response:
        visit.query(frozenset())
        rows = self._inspection.in_force()
        return self._rendering.page(visit, "settings.html", place="settings", rows=rows)

    async def doctor(self, visit: Visit) -> Response:
        visit.query(frozenset())
        return self._rendering.page(
            visit,
            "doctor.html",
            place="doctor",
            examined=self._inspection.examined,
            possible=self._inspection.can_examine,
        )

    async def examine(self, visit: Visit) -> Response:
        await visit.form()
        await self._inspection.examine()
        return visit.see("doctor")


def _may(role: Role) -> str:
    return "; ".join(text for right, text in MAY.items() if right in RIGHTS[role])
