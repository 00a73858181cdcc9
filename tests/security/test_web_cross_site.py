"""Requests that a page of another site makes in the browser of a person who has access."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from homing.domain.errors import SettingsError
from homing.runtime.app import Homing
from homing.settings.tree import ServerSettings, Settings
from homing.web.application import application
from homing.web.mounting import console
from tests.unit.web.conftest import OPEN, running
from tests.unit.web.people import (
    PASSWORD,
    browser,
    cheap_passwords,  # noqa: F401 - a fixture
    sign_in,
    with_people,
)

STATS = "/api/v1/stats"
PAUSE = "/api/v1/routes/mail/pause"
VERB = {"reason": "an attack"}
OWN = "https://mail.example.org"

# As browsers send them: a picture or script, a frame, a link that was followed, a form.
PICTURE = {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
FRAME = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
LINK = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize("path", [STATS, "/", "/export", "/bulk?verb=replay&matching=1", "/live"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_an_open_console_is_no_picture_and_no_frame_elsewhere(path: str, site: str) -> None:
    """Browsers name no origin for these. On loopback, another port is another program."""
    async with running(OPEN) as api:
        api.app.live.end()
        for kind in (PICTURE, FRAME):
            headers = {"Sec-Fetch-Site": site, **kind}
            assert (await api.client.get(path, headers=headers)).status_code == 403


async def test_a_link_from_another_site_may_be_followed() -> None:
    async with running(OPEN) as api:
        for site in ("cross-site", "same-site", "same-origin", "none"):
            headers = {"Sec-Fetch-Site": site, **LINK}
            assert (await api.client.get("/deliveries", headers=headers)).status_code == 200
        posted = await api.client.post(
            PAUSE, json=VERB, headers={"Sec-Fetch-Site": "cross-site", **LINK}
        )
        assert posted.status_code == 403


async def test_a_session_serves_no_page_of_another_site() -> None:
    async with with_people() as api:
        await sign_in(api.client)
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200)):
            headers = {"Sec-Fetch-Site": site, **PICTURE}
            assert (await api.client.get(STATS, headers=headers)).status_code == status


async def test_who_follows_a_link_from_elsewhere_stays_signed_in() -> None:
    """The strict cookie is missing from the first request, and there again in the next."""
    async with with_people() as api:
        first = await browser(api.app).get("/deliveries?state=failed")
        assert first.status_code == 401
        await sign_in(api.client)
        leads_to = first.headers["refresh"].partition("url=./")[2]
        answer = await api.client.get(f"/{leads_to}")
        assert (answer.status_code, answer.headers["location"]) == (
            303,
            "./deliveries?state=failed",
        )


class TestMounted:
    """The console in an application that listens to a network."""

    @pytest.mark.parametrize("auth", ["open", None])
    async def test_who_names_loopback_from_a_network_is_not_let_in(self, auth: str | None) -> None:
        server = ServerSettings(auth=auth)  # type: ignore[arg-type] # a mode by its name
        async with Homing("memory:", provider="stub:", worker=False) as homing:
            app = Starlette(routes=[Mount("/homing", console(homing, server))])
            for peer, status in (("203.0.113.7", 403), ("10.0.0.1", 403), ("127.0.0.1", 200)):
                answer = await browser(app, peer, "http://127.0.0.1").get("/homing/")
                assert answer.status_code == status

    async def test_forms_are_taken_behind_a_proxy_that_names_another_host(self) -> None:
        """nginx passes its own name for the upstream unless it is told otherwise."""
        server = ServerSettings(auth="session", public_url=OWN)
        async with Homing("memory:", provider="stub:", worker=False) as homing:
            await homing.users.add("ann", "operator", PASSWORD)
            app = Starlette(routes=[Mount("/homing", console(homing, server))])
            client = browser(app)
            fields = {"name": "ann", "password": PASSWORD}
            for origin, status in (("https://evil.example", 403), ("null", 403), (OWN, 303)):
                answer = await client.post(
                    "/homing/sign-in", data=fields, headers={"Origin": origin}
                )
                assert answer.status_code == status
            without = await client.post("/homing/sign-in", data=fields)
            assert without.status_code == 400


def test_a_console_takes_no_path_of_the_rest_api() -> None:
    with pytest.raises(SettingsError, match="served already"):
        application(Homing("memory:", provider="stub:"), Settings(), console="/api/v1")


class TestCookies:
    async def test_behind_a_silent_proxy_the_cookie_travels_by_https_alone(self) -> None:
        """The proxy names neither itself nor the host: only the page says that it is HTTPS."""
        async with with_people(ServerSettings(auth="session", public_url=OWN)) as api:
            answer = await api.client.post(
                "/api/v1/sign-in",
                json={"name": "the operator", "password": PASSWORD},
                headers={"Origin": OWN},
            )
            cookie = answer.headers["set-cookie"]
            assert cookie.startswith("__Host-homing_session=")
            assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
            pair = cookie.partition(";")[0]
            seen = await browser(api.app).get(STATS, headers={"Cookie": pair})
            assert seen.status_code == 200
            more = {"Cookie": pair, "X-CSRF-Token": answer.json()["csrf_token"]}
            left = await browser(api.app).post("/api/v1/sign-out", json={}, headers=more)
            assert left.headers["set-cookie"] == (
                "__Host-homing_session=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict; Secure"
            )

    async def test_of_a_secure_and_a_plain_cookie_neither_counts(self) -> None:
        async with with_people() as api:
            await sign_in(api.client)
            own = api.client.cookies["homing_session"]
            pairs = f"homing_session={own}; __Host-homing_session={'0' * 64}"
            answer = await browser(api.app).get(STATS, headers={"Cookie": pairs})
            assert answer.status_code == 401

    async def test_a_proxy_that_speaks_plain_http_gets_no_password(self) -> None:
        async with with_people() as api:
            client = browser(api.app, base="http://mail.example.org")
            client.headers["X-Forwarded-For"] = "203.0.113.7"
            for proto, status in (("http", 403), ("https", 200)):
                client.headers["X-Forwarded-Proto"] = proto
                assert (await sign_in(client)).status_code == status

    async def test_in_proxy_mode_the_cookie_of_the_browser_is_secure(self) -> None:
        server = ServerSettings(
            auth="proxy",
            trusted_proxies=("127.0.0.1",),
            proxy_header="X-Forwarded-User",
            public_url=OWN,
        )
        async with with_people(server) as api:
            named = {"X-Forwarded-User": "the viewer"}
            cookie = (await api.client.get("/api/v1/me", headers=named)).headers["set-cookie"]
            assert cookie.startswith("__Host-homing_browser=")
            assert cookie.endswith("; Secure")
