"""The console as part of an application: its prefix, its mount, its refusals, its static files."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx2
import pytest
from starlette.applications import Starlette

from homing.plugins.value import NoSettings, Service, Web
from homing.runtime.app import Homing
from homing.settings import Settings
from homing.settings.tree import ServerSettings
from homing.web.application import application
from homing.web.mounting import console
from tests.unit.web.conftest import Api

LINKS = re.compile(r'(?:href|src|action)="([^"#]+)')


def client_of(app: object) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=True)  # type: ignore[arg-type] # any ASGI application
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8025")


async def all_links_work(client: httpx2.AsyncClient, start: str) -> int:
    """Every page that can be reached from here by links, and its files, under this prefix alone."""
    seen: set[str] = set()
    todo = [httpx2.URL(f"http://127.0.0.1:8025{start}")]
    while todo:
        url = todo.pop()
        if str(url) in seen:
            continue
        seen.add(str(url))
        answer = await client.get(url)
        assert answer.status_code in (200, 303), (url, answer.status_code)
        assert url.path.startswith(start), url
        if "html" in answer.headers["content-type"]:
            # Forms are not sent here.
            text = re.sub(r'method="post" action="[^"]*"', "", answer.text)
            todo += [url.join(link.replace("&amp;", "&")) for link in LINKS.findall(text)]
    return len(seen)


@pytest.fixture
async def homing() -> AsyncIterator[Homing]:
    homing = Homing("memory:", provider="stub:", worker=False)
    async with homing:
        yield homing


async def test_it_is_mounted_in_one_line_under_any_prefix(homing: Homing) -> None:
    app = Starlette()
    app.mount("/ops/homing", console(homing, ServerSettings(auth="open")))
    async with client_of(app) as client:
        bare = await client.get("/ops/homing")
        assert (bare.status_code, bare.headers["location"][-12:]) == (307, "/ops/homing/")
        assert await all_links_work(client, "/ops/homing/") >= 15


async def test_a_mounted_console_asks_people_to_sign_in(homing: Homing) -> None:
    app = Starlette()
    app.mount("/homing", console(homing))
    async with client_of(app) as client:
        answer = await client.get("/homing/deliveries?state=failed")
        assert answer.status_code == 401
        assert answer.headers["refresh"] == "0; url=./sign-in?next=deliveries%3Fstate%3Dfailed"


async def test_a_plugin_serves_it_only_under_its_prefix() -> None:
    for prefix, status in ((None, 404), ("/console", 200)):
        homing = Homing("memory:", provider="stub:", worker=False)
        general = Settings(store="memory:")
        app = application(
            homing,
            general,
            web=Web(access="trusted", standard=False),
            service=Service(homing, NoSettings(), general),
            console=prefix,
        )
        async with app.router.lifespan_context(app), client_of(app) as client:
            assert (await client.get("/console/")).status_code == status
            assert (await client.get("/deliveries")).status_code == 404
            if prefix:
                assert (await client.get("/console")).headers["location"] == "console/"
                assert await all_links_work(client, "/console/") >= 15


async def test_refusals_are_pages_with_the_status_of_rest(api: Api) -> None:
    for path, status in (
        ("/deliveries/unknown", 404),
        ("/deliveries?state=odd", 400),
        ("/bulk?verb=replay", 422),
        ("/routes/unknown", 404),
        ("/routes/mail?outage=banana", 422),
        ("/?span=year", 400),
    ):
        answer = await api.client.get(path)
        assert answer.status_code == status, path
        assert answer.headers["content-type"].startswith("text/html")


async def test_a_form_of_another_page_changes_nothing(api: Api) -> None:
    delivery_id = await api.dead()
    form = {"reason": "r", "cycle": "1"}
    for origin in (None, "null", "https://evil.example", "http://127.0.0.1:1"):
        headers = {} if origin is None else {"Origin": origin}
        answer = await api.client.post(
            f"/deliveries/{delivery_id}/dismiss", data=form, headers=headers
        )
        assert answer.status_code in (400, 403), origin
    shown = await api.client.get(f"/api/v1/deliveries/{delivery_id}")
    assert shown.json()["state"] == "failed"


async def test_sign_in_leads_to_a_page_of_the_console_alone(homing: Homing) -> None:
    await homing.users.add("ann", "admin", "correct horse battery")
    app = console(homing)
    headers = {"Origin": "http://127.0.0.1:8025"}
    for wanted, location in (
        ("deliveries?state=failed", "./deliveries?state=failed"),
        ("//evil.example", "./"),
        ("https://evil.example", "./"),
        ("\\evil", "./"),
        ("../../x", "./"),
    ):
        async with client_of(app) as client:
            form = {"name": "ann", "password": "correct horse battery", "next": wanted}
            answer = await client.post("/sign-in", data=form, headers=headers)
            assert (answer.status_code, answer.headers["location"]) == (303, location)


async def test_static_files_are_kept_by_browsers_and_pages_are_not(api: Api) -> None:
    page = await api.client.get("/")
    assert page.headers["cache-control"] == "no-store"
    [style] = re.findall(r"static/console\.css\?v=\w+", page.text)
    answer = await api.client.get(f"/{style}")
    assert "immutable" in answer.headers["cache-control"]


async def test_the_filter_of_a_bulk_form_is_not_its_reason(api: Api) -> None:
    """Both have a `reason`: why deliveries have failed, and why the operator acts."""
    headers = {"Origin": "http://127.0.0.1:8025"}
    failed = [await api.dead(key) for key in ("a", "b")]

    async def dismiss(**form: str) -> tuple[int, list[str]]:
        given = {"verb": "dismiss", "reason": "sent by post", **form}
        answer = await api.client.post("/bulk", data=given, headers=headers)
        await api.homing.bulk.finished()
        left = await api.listed(state="failed")
        return answer.status_code, [each["delivery_id"] for each in left]

    preview = (await api.client.get("/bulk?verb=dismiss&matching=1&reason=rejected&key=a")).text
    assert '<input type="hidden" name="filter" value="key=a&amp;reason=rejected">' in preview
    assert await dismiss() == (422, failed[::-1])
    assert await dismiss(filter="reason=poison") == (303, failed[::-1])
    assert await dismiss(filter="reason=rejected&key=a") == (303, failed[1:])
    assert await dismiss(filter="") == (303, [])
