"""Personal data: a role without the right sees no address and no text about a person anywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from homing.domain.redaction import mask_address, mask_addresses
from homing.settings.tree import ServerSettings
from tests.unit.web.conftest import Api
from tests.unit.web.people import (
    browser,
    cheap_passwords,  # noqa: F401 - a fixture
    sign_in,
    with_people,
)

# What must not be seen: the address, what stands in the mail, in metadata, and in reasons.
SECRETS = ("bounce@stub.test", "bounce", "Anna Canary", "canary-metadata", "canary-reason")


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with with_people() as api:
        yield api


async def seen(api: Api, role: str) -> str:
    """Everything that this role can read of one delivery."""
    admin = browser(api.app)
    await sign_in(admin, "the admin")
    api.client = admin
    delivery_id = await api.dead(
        "mail-to-bounce@stub.test",
        subject="Anna Canary",
        text="Dear Anna Canary",
        metadata={"name": "canary-metadata"},
    )
    for verb in ("replay", "annotate"):
        body = {"reason": "canary-reason for bounce@stub.test"}
        await admin.post(f"/api/v1/deliveries/{delivery_id}/{verb}", json=body)
    await api.work()
    reader = browser(api.app)
    await sign_in(reader, f"the {role}")
    texts = []
    for path in (
        "/api/v1/deliveries",
        f"/api/v1/deliveries/{delivery_id}",
        f"/api/v1/deliveries/{delivery_id}/attempts",
        f"/api/v1/deliveries/{delivery_id}/audit",
        f"/api/v1/deliveries/{delivery_id}/why",
        f"/api/v1/search?q={delivery_id}",
        "/api/v1/search?q=mailbox",
        "/api/v1/export?format=csv",
        "/api/v1/export?format=json",
        "/api/v1/failures",
        "/api/v1/audit",
        "/api/v1/stats",
        "/api/v1/counters",
        "/metrics",
        "/",
    ):
        answer = await reader.get(path)
        assert answer.status_code == 200, path
        assert (
            delivery_id in answer.text
            or path
            in (
                "/api/v1/stats",
                "/api/v1/counters",
                "/metrics",
                "/",
            )
            or path.endswith(("/attempts", "/audit"))
        ), path
        texts.append(answer.text)
    return "\n".join(texts)


async def test_a_viewer_sees_no_personal_data(api: Api) -> None:
    text = await seen(api, "viewer")
    assert [secret for secret in SECRETS if secret in text] == []
    assert "b***@stub.test" in text


async def test_an_operator_sees_what_repairing_needs(api: Api) -> None:
    text = await seen(api, "operator")
    assert "bounce@stub.test" in text
    assert "canary-reason" in text
    assert "canary-metadata" in text


async def test_the_setting_says_which_roles_see(api: Api) -> None:
    del api
    roles = ServerSettings(auth="session", personal_data_roles=("viewer", "admin"))
    async with with_people(roles) as shown:
        assert "bounce@stub.test" in await seen(shown, "viewer")
    async with with_people(roles) as shown:
        assert "bounce@stub.test" not in await seen(shown, "operator")


async def test_who_sees_no_address_cannot_ask_for_one_either(api: Api) -> None:
    """Else each guess would be confirmed."""
    await sign_in(api.client, "the viewer")
    for path in (
        "/api/v1/deliveries?recipient=ann@example.org",
        "/api/v1/export?recipient=ann@example.org",
        "/api/v1/search?q=ann@example.org",
    ):
        assert (await api.client.get(path)).status_code == 403


async def test_contents_need_the_right_to_see_personal_data(api: Api) -> None:
    await sign_in(api.client, "the admin")
    path = f"/api/v1/deliveries/{await api.dead()}/content"
    for role, status in (("viewer", 403), ("operator", 200)):
        await sign_in(api.client, f"the {role}")
        assert (await api.client.get(path)).status_code == status


async def test_an_act_shows_no_more_than_reading(api: Api) -> None:
    roles = ServerSettings(auth="session", personal_data_roles=("admin",))
    del api
    async with with_people(roles) as hidden:
        await sign_in(hidden.client, "the admin")
        delivery_id = await hidden.dead()
        await sign_in(hidden.client, "the operator")
        body = {"reason": "gone"}
        done = await hidden.client.post(f"/api/v1/deliveries/{delivery_id}/dismiss", json=body)
        assert done.json()["recipients"][0]["address"] == "b***@stub.test"
        chosen = {**body, "filter": {"recipient": "bounce@stub.test"}, "dry_run": True}
        refused = await hidden.client.post("/api/v1/cancellations", json=chosen)
        assert refused.status_code == 403


async def test_a_token_sees_what_its_role_does(api: Api) -> None:
    token = await api.homing.tokens.make("screen", "viewer")
    await sign_in(api.client, "the admin")
    await api.dead()
    program = browser(api.app)
    program.headers["Authorization"] = f"Bearer {token}"
    assert "bounce@stub.test" not in (await program.get("/api/v1/deliveries")).text


@pytest.mark.parametrize(
    ("address", "masked"),
    [
        ("ann@example.org", "a***@example.org"),
        ("a@example.org", "a***@example.org"),
        ('"a@b"@example.org', '"***@example.org'),
        ("changelist-7", "c***"),
        ("", "***"),
    ],
)
def test_an_address_can_be_recognised_and_not_read(address: str, masked: str) -> None:
    assert mask_address(address) == masked


def test_addresses_in_a_text_are_masked() -> None:
    text = "550 <ann@example.org>: bob.x@b.example refused, see ticket@7"
    assert mask_addresses(text) == "550 <a***@example.org>: b***@b.example refused, see t***@7"
