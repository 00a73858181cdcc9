"""Contents and the audit of everything, by REST."""

from __future__ import annotations

import pytest

from homing.domain.delivery import Change
from tests.unit.web.conftest import Api

AUDIT = "/api/v1/audit"
SIGNED = {"actor": "ann", "reason": "a look at it"}


async def test_the_payload_and_the_results_are_shown(api: Api) -> None:
    delivery_id = await api.dead(subject="Booked", text="See you on Monday")
    delivery = await api.homing.ops.show(delivery_id)
    await api.homing.store.save([Change(delivery, results={"frozen": b"MIME\xff"})])
    found = (await api.client.get(f"/api/v1/deliveries/{delivery_id}/content")).json()
    assert found["payload"]["json"]["text"] == "See you on Monday"
    assert found["results"]["frozen"] == {"base64": "TUlNRf8="}
    assert (await api.client.get("/api/v1/deliveries/x/content")).status_code == 404


async def test_the_audit_has_all_acts_newest_first(api: Api) -> None:
    delivery_id = await api.dead()
    for path in (f"deliveries/{delivery_id}/dismiss", "routes/mail/pause", "routes/mail/resume"):
        assert (await api.client.post(f"/api/v1/{path}", json=SIGNED)).is_success
        api.clock.advance(1)
    await api.homing.ops.note_access("add user", "user:bob", **SIGNED)
    seen: list[tuple[str, str]] = []
    cursor: str | None = ""
    while cursor is not None:
        params = {"limit": "3", **({"cursor": cursor} if cursor else {})}
        page = (await api.client.get(AUDIT, params=params)).json()
        seen += [(item["verb"], item["subject"]) for item in page["items"]]
        cursor = page["next_cursor"]
    assert seen == [
        ("add user", "user:bob"),
        ("resume", "route:mail"),
        ("pause", "route:mail"),
        ("dismiss", delivery_id),
    ]


@pytest.mark.parametrize("cursor", ["x", "", "é", "MTI", "LTE6eA", "YTp4"])
async def test_what_is_no_cursor_is_refused(api: Api, cursor: str) -> None:
    refused = await api.client.get(AUDIT, params={"cursor": cursor})
    assert (refused.status_code, refused.json()["field"]) == (400, "cursor")
