"""How the service is set up and whether its parts answer: workers, settings, doctor, providers.

REST and the console use the same; what was found last is kept for both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec.structs import replace
from starlette.responses import Response

from homing.domain.errors import InvalidRequest, NotFound
from homing.domain.message import Email
from homing.engine.ops.advice import with_advice
from homing.engine.ops.inspecting import list_workers
from homing.engine.process.unserved import unserved_queues
from homing.plugins.doctor import examine_running
from homing.plugins.programs import Program, settings_in_force
from homing.ports import Checked, Finding
from homing.runtime.app import Homing
from homing.web.api.intake import Intake, takes_emails
from homing.web.api.listing import Listing
from homing.web.api.schemas import (
    AcceptedOut,
    CheckOut,
    DoctorOut,
    NothingIn,
    SettingOut,
    SettingsOut,
    TestIn,
    WorkersOut,
)
from homing.web.api.verbs import MAX_VERB_BYTES, who
from homing.web.http.answers import json_answer
from homing.web.http.calls import Call, query_of
from homing.web.http.problems import BadRequest

CHECK_WITHIN_S = 15.0
NO_FIELDS: frozenset[str] = frozenset()


class Inspection:
    def __init__(
        self, homing: Homing, listing: Listing, intake: Intake, program: Program | None
    ) -> None:
        self._homing = homing
        self._listing = listing
        self._intake = intake
        self._program = program
        self._examining = asyncio.Lock()
        self._checked: dict[str, CheckOut] = {}
        self.examined: DoctorOut | None = None

    @property
    def can_examine(self) -> bool:
        """Its checks need the settings of `homing serve`."""
        return self._program is not None

    @property
    def checked(self) -> Mapping[str, CheckOut]:
        """What providers answered last, by route."""
        return self._checked

    def in_force(self) -> list[SettingOut]:
        """Every setting, secrets masked."""
        rows = [] if self._program is None else settings_in_force(self._program)
        return [SettingOut(*row) for row in rows]

    async def examine(self) -> DoctorOut:
        """Look for trouble; who asks while this is done gets the same report."""
        if self._program is None:
            raise BadRequest("these checks need the settings of `homing serve`", None, 409)
        clock = self._homing.engine.clock
        asked_at_ms = clock.now_ms()
        async with self._examining:
            if self.examined is None or (self.examined.at_ms or 0) < asked_at_ms:
                findings = await examine_running(self._program, self._homing)
                self.examined = DoctorOut(clock.now_ms(), findings)
            return self.examined

    async def check(self, name: str) -> CheckOut:
        """Ask the provider of a route: reachable, trusted, logged in. Nothing is sent."""
        await self._listing.demand_route(name, 404)
        route = self._homing.engine.routes.get(name)
        provider: object = None if route is None else route.provider
        if not isinstance(provider, Checked):
            raise NotFound(f"route {name} has no provider that can be asked")
        try:
            async with asyncio.timeout(CHECK_WITHIN_S):
                findings = [with_advice(finding) for finding in await provider.findings()]
        except TimeoutError:
            findings = [Finding("provider", "bad", "it did not answer in time")]
        found = CheckOut(name, self._homing.engine.clock.now_ms(), findings)
        self._checked[name] = found
        return found

    async def send_test(self, call: Call, name: str, to: str, actor: str) -> AcceptedOut:
        """One mail to an address of the operator's own."""
        await self._listing.demand_route(name, 404)
        route = self._homing.engine.routes.get(name)
        if route is None or not takes_emails(route):
            raise BadRequest("it takes no e-mails", "route", 409)
        email = Email(
            to=to,
            subject="Test message from Homing",
            text=f"{actor} has sent this to see whether route {name} works.",
        )
        try:
            ticket = await self._homing.submit(email, route=name, source="console")
        except InvalidRequest as error:
            raise type(error)(error.field.removesuffix("[0]"), error.problem) from error
        note = "sent as a test message"
        await self._listing.ops(call).annotate(ticket.delivery_id, actor=actor, note=note)
        return AcceptedOut(ticket.delivery_id, self._listing.word(ticket.delivery), created=True)

    async def get_workers(self, call: Call) -> Response:
        query_of(call.scope, NO_FIELDS)
        engine = self._homing.engine
        workers = await list_workers(engine)
        return json_answer(
            WorkersOut(workers, await unserved_queues(engine.store, engine.liveness))
        )

    async def get_settings(self, call: Call) -> Response:
        query_of(call.scope, NO_FIELDS)
        return json_answer(SettingsOut(self.in_force()))

    async def get_report(self, call: Call) -> Response:
        """The last one."""
        query_of(call.scope, NO_FIELDS)
        found = self.examined or DoctorOut(None, [])
        return json_answer(replace(found, findings=self._shown(call, found.findings)))

    async def post_report(self, call: Call) -> Response:
        await self._intake.read(call, NothingIn, MAX_VERB_BYTES)
        found = await self.examine()
        return json_answer(replace(found, findings=self._shown(call, found.findings)))

    async def post_check(self, call: Call) -> Response:
        await self._intake.read(call, NothingIn, MAX_VERB_BYTES)
        found = await self.check(_route(call))
        return json_answer(replace(found, findings=self._shown(call, found.findings)))

    async def post_test(self, call: Call) -> Response:
        given = await self._intake.read(call, TestIn, MAX_VERB_BYTES)
        actor = who(call, given.actor, "test")["actor"]
        return json_answer(await self.send_test(call, _route(call), given.to, actor), 202)

    def _shown(self, call: Call, findings: list[Finding]) -> list[Finding]:
        """As the caller may see them: a provider may name an address."""
        ops = self._listing.ops(call)
        return [replace(each, detail=ops.text(each.detail)) for each in findings]


def _route(call: Call) -> str:
    return str(call.path_params["route"])
