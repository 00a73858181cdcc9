"""Workers, settings, doctor, provider checks and test messages by REST: what the console shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from homing.domain.delivery import Fact
from homing.domain.errors import StoreLocked
from homing.domain.message import Event
from homing.engine.process.liveness import PATIENCE_S, WORKER
from homing.plugins import doctor
from homing.plugins.programs import Program, assemble
from homing.ports import Finding
from homing.providers.stub import StubProvider
from homing.runtime.app import Homing
from homing.settings import Settings
from homing.settings.loading import Loaded
from homing.settings.tree import ServerSettings
from homing.testing.clocks import ManualClock
from homing.web.api.inspection import Inspection
from homing.web.api.schemas import DoctorOut
from homing.web.application import application
from tests.unit.web.conftest import OPEN, Api, running
from tests.unit.web.people import (
    cheap_passwords,  # noqa: F401 - a fixture
    sign_in,
    with_people,
)

API = "/api/v1"


async def test_workers_are_listed_with_what_they_serve(api: Api) -> None:
    await api.homing.engine.liveness.beat()
    found = (await api.client.get(f"{API}/workers")).json()
    [worker] = found["items"]
    assert worker["here"] is True
    assert worker["alive"] is True
    assert worker["beat_at_ms"] == api.clock.now_ms()
    assert isinstance(worker["pid"], int)
    assert found["unserved"] == {}


async def test_while_the_store_refuses_writes_workers_are_told_from_what_is_known(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beat that is late would have to be written before anybody is judged."""
    await api.homing.engine.liveness.beat()
    beat_at_ms = api.clock.now_ms()
    api.clock.advance(PATIENCE_S)

    async def refuse(*args: object) -> None:
        raise StoreLocked("homing.db is locked")

    monkeypatch.setattr(api.homing.store, "save", refuse)
    for path in ("workers", "stats"):
        assert (await api.client.get(f"{API}/{path}")).status_code == 200
    [worker] = (await api.client.get(f"{API}/workers")).json()["items"]
    assert worker["beat_at_ms"] == beat_at_ms


@pytest.mark.parametrize("path", ["check", "test", "pause", "resume"])
async def test_a_route_that_is_not_known_is_refused_with_those_that_are(
    api: Api, path: str
) -> None:
    body = {"check": {}, "test": {"to": "ann@example.org"}}.get(path, {"reason": "x"})
    answer = await api.client.post(f"{API}/routes/none/{path}", json=body)
    assert answer.status_code == 404
    assert answer.json()["field"] == "route"
    assert answer.json()["detail"].startswith("must be one of ")
    assert "mail" in answer.json()["detail"]


async def test_a_process_that_is_silent_is_shown_as_such(api: Api) -> None:
    beaten_ms = api.clock.now_ms()
    beat = {"host": "elsewhere", "pid": "7", "queues": "mail\n"}
    await api.homing.store.save([], [Fact(WORKER, "other", beaten_ms, {**beat})])
    await api.homing.engine.liveness.look()
    api.clock.advance(600)
    await api.homing.engine.liveness.beat()
    here, other = (await api.client.get(f"{API}/workers")).json()["items"]
    assert here["here"] is True
    assert other == {
        "name": "other",
        "host": "elsewhere",
        "pid": 7,
        "queues": ["mail"],
        "beat_at_ms": beaten_ms,
        "alive": False,
        "here": False,
    }


async def test_what_is_due_later_is_not_the_oldest_due(api: Api) -> None:
    await api.post("k-1", to=["down@stub.test"])
    await api.work()
    assert (await api.client.get(f"{API}/stats")).json()["oldest_due_at_ms"] is None


async def test_stats_say_since_when_the_oldest_is_due(api: Api) -> None:
    assert (await api.client.get(f"{API}/stats")).json()["oldest_due_at_ms"] is None
    await api.post("k-1")
    due_ms = api.clock.now_ms()
    api.clock.advance(60)
    await api.post("k-2")
    assert (await api.client.get(f"{API}/stats")).json()["oldest_due_at_ms"] == due_ms
    who = {"actor": "ann", "reason": "holiday"}
    await api.client.post(f"{API}/routes/mail/pause", json=who)
    assert (await api.client.get(f"{API}/stats")).json()["oldest_due_at_ms"] is None


async def test_a_provider_is_asked(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def findings(self: StubProvider) -> list[Finding]:
        del self
        return [Finding("provider", "bad", "550 ann@example.org is not known here")]

    monkeypatch.setattr(StubProvider, "findings", findings, raising=False)
    answer = await api.client.post(f"{API}/routes/mail/check", json={})
    assert answer.status_code == 200
    assert answer.json() == {
        "route": "mail",
        "at_ms": api.clock.now_ms(),
        "findings": [
            {
                "check": "provider",
                "verdict": "bad",
                "detail": "550 ann@example.org is not known here",
            }
        ],
    }
    assert "is not known here" in (await api.client.get("/routes/mail")).text
    for path, body, status in (
        ("routes/none/check", {}, 404),
        ("routes/mail/check", {"wish": 1}, 422),
    ):
        assert (await api.client.post(f"{API}/{path}", json=body)).status_code == status


async def test_what_a_provider_says_is_masked_for_roles_without_personal_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def findings(self: StubProvider) -> list[Finding]:
        del self
        return [Finding("provider", "bad", "550 ann@example.org is not known here")]

    monkeypatch.setattr(StubProvider, "findings", findings, raising=False)
    server = ServerSettings(auth="session", personal_data_roles=("admin",))
    async with with_people(server) as api:
        for person, sees in (("the operator", False), ("the admin", True)):
            await sign_in(api.client, person)
            answer = await api.client.post(f"{API}/routes/mail/check", json={})
            assert "is not known here" in answer.text
            assert ("ann@example.org" in answer.text) is sees


async def test_a_provider_that_does_not_answer_is_not_waited_for(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    never: asyncio.Future[list[Finding]] = asyncio.get_running_loop().create_future()

    async def findings(self: StubProvider) -> list[Finding]:
        del self
        return await never

    monkeypatch.setattr(StubProvider, "findings", findings, raising=False)
    monkeypatch.setattr("homing.web.api.inspection.CHECK_WITHIN_S", 0.0)
    async with asyncio.timeout(10):
        answer = await api.client.post(f"{API}/routes/mail/check", json={})
    [finding] = answer.json()["findings"]
    assert (finding["verdict"], finding["detail"]) == ("bad", "it did not answer in time")


async def test_a_route_that_takes_no_mail_is_sent_no_test_message() -> None:
    homing = Homing("memory:", provider="stub:", worker=False)

    @homing.on("paid")
    async def book(event: Event) -> None: ...

    async with running(OPEN, homing) as api:
        [name] = [each.name for each in homing.engine.routes.values() if each.provider is None]
        answer = await api.client.post(f"{API}/routes/{name}/test", json={"to": "a@example.org"})
        assert (answer.status_code, answer.json()["field"]) == (409, "route")
        assert await api.listed() == []


async def test_a_test_message_is_a_delivery_with_a_note_of_who_sent_it(api: Api) -> None:
    body = {"to": "ann@example.org", "actor": "ann"}
    answer = await api.client.post(f"{API}/routes/mail/test", json=body)
    assert answer.status_code == 202, answer.text
    assert answer.json()["created"] is True
    delivery_id = answer.json()["delivery_id"]
    [entry] = (await api.client.get(f"{API}/deliveries/{delivery_id}/audit")).json()["items"]
    assert (entry["actor"], entry["reason"]) == ("ann", "sent as a test message")
    await api.work()
    shown = (await api.client.get(f"{API}/deliveries/{delivery_id}")).json()
    assert (shown["state"], shown["recipients"][0]["address"]) == ("delivered", "ann@example.org")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("routes/none/test", {"to": "ann@example.org"}, 404),
        ("routes/mail/test", {"to": "nobody"}, 422),
        ("routes/mail/test", {}, 422),
        ("routes/homing.events/test", {"to": "ann@example.org"}, 404),
    ],
)
async def test_what_cannot_be_tested_is_refused(
    api: Api, path: str, body: dict[str, str], status: int
) -> None:
    assert (await api.client.post(f"{API}/{path}", json=body)).status_code == status
    assert await api.listed() == []


async def test_the_address_of_a_test_message_is_named_as_it_was_given(api: Api) -> None:
    answer = await api.client.post(f"{API}/routes/mail/test", json={"to": "nobody"})
    assert answer.json()["field"] == "to"


async def test_without_settings_there_are_none_to_show(api: Api) -> None:
    assert (await api.client.get(f"{API}/settings")).json() == {"items": []}
    assert (await api.client.get(f"{API}/doctor")).json() == {"at_ms": None, "findings": []}
    assert (await api.client.post(f"{API}/doctor", json={})).status_code == 409


async def test_the_report_of_the_doctor_is_masked_for_roles_without_personal_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def examine(self: Inspection) -> DoctorOut:
        finding = Finding("provider", "bad", "550 ann@example.org is not known here")
        self.examined = DoctorOut(1, [finding])
        return self.examined

    monkeypatch.setattr(Inspection, "examine", examine)
    server = ServerSettings(auth="session", personal_data_roles=("operator",))
    async with with_people(server) as api:
        await sign_in(api.client, "the admin")
        answers = [
            await api.client.post(f"{API}/doctor", json={}),
            await api.client.get(f"{API}/doctor"),
            await api.client.get("/doctor"),
        ]
    for answer in answers:
        assert "is not known here" in answer.text
        assert "ann@example.org" not in answer.text


class Served:
    """A service with settings, as `homing serve` has them."""

    def __init__(self, client: httpx2.AsyncClient, homing: Homing) -> None:
        self.client = client
        self.homing = homing


@asynccontextmanager
async def serving(folder: Path, provider: str, *, worker: bool) -> AsyncIterator[Served]:
    store = f"sqlite:///{folder}/homing.db"
    settings = Settings(store=store, provider=provider, sender="a@b.test")
    program = Program(loaded=Loaded(settings, {"provider": "homing.toml"}))
    homing = assemble(program, worker=worker)
    app = application(homing, settings, program=program)
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=True)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8025") as client,
    ):
        yield Served(client, homing)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    secret = "smtp://ann:hunter2@mail.example.org:587"
    async with serving(tmp_path, secret, worker=False) as served:
        yield served


async def test_settings_are_shown_with_their_origin_and_without_secrets(served: Served) -> None:
    answer = await served.client.get(f"{API}/settings")
    found = {each["name"]: each for each in answer.json()["items"]}
    assert found["provider"]["value"] == "smtp://***@mail.example.org:587"
    assert found["provider"]["origin"] == "homing.toml"
    assert found["server.port"]["origin"] == "default"
    assert "hunter2" not in answer.text


async def test_the_doctor_looks_once_for_all_who_ask_meanwhile(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = looks = 0
    all_have_asked = asyncio.Event()
    answer = Inspection.examine

    async def ask(self: Inspection) -> DoctorOut:
        nonlocal asked
        asked += 1
        if asked == 6:
            all_have_asked.set()
        return await answer(self)

    async def examine(program: Program, homing: Homing) -> list[Finding]:
        nonlocal looks
        looks += 1
        del program, homing
        await all_have_asked.wait()
        return [Finding("store", "good", f"look {looks}")]

    monkeypatch.setattr(Inspection, "examine", ask)
    monkeypatch.setattr("homing.web.api.inspection.examine_running", examine)
    answers = await asyncio.gather(
        *(served.client.post(f"{API}/doctor", json={}) for _ in range(6))
    )
    assert {each.status_code for each in answers} == {200}
    assert looks == 1
    last = (await served.client.get(f"{API}/doctor")).json()
    assert last["findings"][0]["detail"] == "look 1"


async def test_the_doctor_looks_again_when_asked_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    async def examine(program: Program, homing: Homing) -> list[Finding]:
        nonlocal looks
        looks += 1
        del program, homing
        return [Finding("store", "good", f"look {looks}")]

    monkeypatch.setattr("homing.web.api.inspection.examine_running", examine)
    clock = ManualClock()
    monkeypatch.setattr(served.homing.engine, "clock", clock)
    for look in (1, 2):
        clock.advance(1)
        found = (await served.client.post(f"{API}/doctor", json={})).json()
        assert found["findings"][0]["detail"] == f"look {look}"


async def test_the_doctor_reports_as_the_command_does(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fine(provider: object) -> list[Finding]:
        del provider
        return [Finding("provider", "good", "answers")]

    monkeypatch.setattr(doctor, "_provider", fine)
    found = (await served.client.post(f"{API}/doctor", json={})).json()
    assert {"check": "provider", "verdict": "good", "detail": "answers"} in found["findings"]
    checks = {each["check"] for each in found["findings"]}
    assert checks >= {"store", "provider", "clock", "worker"}
    assert (await served.client.get(f"{API}/doctor")).json() == found


async def test_a_service_that_examines_itself_is_alive(tmp_path: Path) -> None:
    async with serving(tmp_path, "stub:", worker=True) as served:
        found = (await served.client.post(f"{API}/doctor", json={})).json()
    alive = {"check": "worker", "verdict": "good", "detail": "1 process(es) alive"}
    assert alive in found["findings"]
