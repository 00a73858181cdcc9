"""Repairing by REST: each verb does its work, or says 409 and changes nothing."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from homing.domain.message import Email, decode_message
from homing.engine.ops.verbs import VERBS
from tests.unit.web.conftest import Api

WHO = {"actor": "ann", "reason": "the mailbox exists now"}


def body_for(verb: str) -> dict[str, Any]:
    more: dict[str, dict[str, Any]] = {
        "confirm": {"evidence": "seen in the inbox"},
        "amend": {"email": {"to": ["ok@stub.test"], "subject": "Booked", "text": "See you"}},
    }
    return WHO | more.get(verb, {})


async def act(api: Api, delivery_id: str, verb: str, **more: Any) -> httpx2.Response:
    url = f"/api/v1/deliveries/{delivery_id}/{verb}"
    return await api.client.post(url, json=body_for(verb) | more)


async def shown(api: Api, delivery_id: str, part: str = "") -> dict[str, Any]:
    answer: dict[str, Any] = (
        await api.client.get(f"/api/v1/deliveries/{delivery_id}{part}")
    ).json()
    return answer


async def test_a_dead_letter_is_explained_and_replayed(api: Api) -> None:
    delivery_id = await api.dead()
    why = (await shown(api, delivery_id, "/why"))["lines"]
    assert any("no such mailbox" in line for line in why)
    replayed = await act(api, delivery_id, "replay")
    assert (replayed.status_code, replayed.json()["status"]) == (200, "pending")
    assert replayed.json()["failure_history"][0]["replayed_by"] == "ann"
    attempts = (await shown(api, delivery_id, "/attempts"))["items"]
    assert [attempt["status"] for attempt in attempts] == ["rejected", "scheduled"]
    audit = (await shown(api, delivery_id, "/audit"))["items"]
    assert [(e["verb"], e["actor"], e["reason"]) for e in audit] == [
        ("replay", "ann", "the mailbox exists now")
    ]


async def test_a_late_second_click_does_nothing_i21(api: Api) -> None:
    """Two clicks on what an operator saw have one effect."""
    delivery_id = await api.dead()
    assert (await act(api, delivery_id, "replay", cycle=1)).status_code == 200
    await api.work()
    assert (await act(api, delivery_id, "replay", cycle=1)).status_code == 409
    assert (await act(api, delivery_id, "dismiss", cycle=1)).status_code == 409
    assert (await act(api, delivery_id, "dismiss", cycle=2)).status_code == 200


async def test_dismiss_and_restore(api: Api) -> None:
    delivery_id = await api.dead()
    assert (await act(api, delivery_id, "dismiss")).json()["status"] == "dismissed"
    assert (await act(api, delivery_id, "restore")).json()["status"] == "failed"


async def test_cancel_stops_what_was_not_sent(api: Api) -> None:
    delivery_id = (await api.post("k")).json()["delivery_id"]
    cancelled = await act(api, delivery_id, "cancel")
    assert cancelled.status_code == 200
    await api.work()
    assert (await shown(api, delivery_id))["attempts"] == 0


async def test_a_resend_is_a_delivery_of_its_own(api: Api) -> None:
    delivery_id = await api.dead()
    before = await shown(api, delivery_id)
    clone = await act(api, delivery_id, "resend")
    assert clone.status_code == 201
    assert clone.json()["clone_of"] == delivery_id
    assert clone.json()["source"] == "operator_resend"
    assert await shown(api, delivery_id) == before


async def test_an_uncertain_one_is_confirmed_with_evidence(api: Api) -> None:
    ticket = (await api.post("k", to=["maybe@stub.test"])).json()
    await api.work()
    for _ in range(10):
        api.clock.advance(seconds=100_000)
        await api.work()
    delivery_id = ticket["delivery_id"]
    assert (await shown(api, delivery_id))["failed_because"] == "uncertain"
    confirmed = await act(api, delivery_id, "confirm")
    assert confirmed.json()["status"] == "delivered"
    assert confirmed.json()["receipt"]["detail"] == "seen in the inbox"


async def test_a_note_changes_nothing_else(api: Api) -> None:
    delivery_id = await api.dead()
    before = await shown(api, delivery_id)
    noted = await act(api, delivery_id, "annotate", reason="asked the customer")
    assert noted.json() == before
    audit = (await shown(api, delivery_id, "/audit"))["items"]
    assert [(e["verb"], e["reason"]) for e in audit] == [("annotate", "asked the customer")]


async def test_a_corrected_mail_goes_to_the_corrected_address(api: Api) -> None:
    delivery_id = await api.dead()
    amended = await act(api, delivery_id, "amend")
    assert amended.status_code == 200, amended.text
    assert [r["address"] for r in amended.json()["recipients"]] == ["ok@stub.test"]
    await act(api, delivery_id, "replay")
    await api.work()
    assert (await shown(api, delivery_id))["status"] == "delivered"
    content = await api.homing.store.content(delivery_id)
    assert content is not None
    email = decode_message(content.payload)
    assert isinstance(email, Email)
    assert email.to == ("ok@stub.test",)


async def test_a_correction_is_checked_like_any_mail(api: Api) -> None:
    delivery_id = await api.dead()
    wrong = {"to": ["no address"], "text": "x"}
    answer = await act(api, delivery_id, "amend", email=wrong)
    assert (answer.status_code, answer.json()["field"]) == (422, "email.to[0]")


@pytest.mark.parametrize("verb", ["replay", "restart", "dismiss", "restore", "confirm"])
async def test_a_verb_that_the_state_forbids_is_409(api: Api, verb: str) -> None:
    delivery_id = (await api.post("k")).json()["delivery_id"]
    before = await shown(api, delivery_id)
    answer = await act(api, delivery_id, verb)
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert await shown(api, delivery_id) == before


@pytest.mark.parametrize("verb", VERBS)
async def test_an_unknown_delivery_is_404(api: Api, verb: str) -> None:
    assert (await act(api, "nope", verb)).status_code == 404


async def test_an_unknown_verb_is_404(api: Api) -> None:
    delivery_id = await api.dead()
    assert (await act(api, delivery_id, "explode")).status_code == 404


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"actor": ""}, "actor"),
        ({"actor": " "}, "actor"),
        ({"actor": "ann\nroot"}, "actor"),
        ({"actor": "\x1b[2Jann"}, "actor"),
        ({"actor": "ann\u202e"}, "actor"),
        ({"reason": ""}, "reason"),
        ({"reason": "x" * 2001}, "reason"),
        ({"reason": "a\x00b"}, "reason"),
        ({"more": 1}, "more"),
    ],
)
async def test_verbs_take_only_an_actor_and_a_reason_that_can_be_shown(
    api: Api, verb: str, wrong: dict[str, Any], field: str
) -> None:
    """T20: what an operator writes is shown in terminals and logs later."""
    delivery_id = await api.dead()
    before = await shown(api, delivery_id)
    answer = await act(api, delivery_id, verb, **wrong)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert await shown(api, delivery_id) == before
    assert (await shown(api, delivery_id, "/audit"))["items"] == []


@pytest.mark.parametrize(
    ("verb", "wrong", "field"),
    [
        ("replay", {"cycle": 0}, "cycle"),
        ("replay", {"cycle": "1"}, "cycle"),
        ("replay", {"generation": -1}, "generation"),
        ("dismiss", {"generation": 1}, "generation"),
        ("confirm", {"evidence": ""}, "evidence"),
        ("confirm", {"evidence": "a\nb"}, "evidence"),
        ("amend", {"email": {"to": ["a@b.org"], "route": "mail"}}, "email.route"),
    ],
)
async def test_the_words_of_a_verb_are_checked(
    api: Api, verb: str, wrong: dict[str, Any], field: str
) -> None:
    delivery_id = await api.dead()
    answer = await act(api, delivery_id, verb, **wrong)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


async def test_a_route_is_paused_and_resumed(api: Api) -> None:
    paused = await api.client.post("/api/v1/routes/mail/pause", json=WHO)
    assert paused.json() == {"route": "mail", "paused": True, "within_s": 1.0, "under_way": 0}
    assert 'homing_route_paused{route="mail"} 1\n' in (await api.client.get("/metrics")).text
    assert "paused" in (await api.client.get("/")).text
    resumed = await api.client.post("/api/v1/routes/mail/resume", json=WHO)
    assert resumed.json() == {"route": "mail", "paused": False, "within_s": 1.0, "under_way": 0}
    assert (await api.client.post("/api/v1/routes/none/pause", json=WHO)).status_code == 404
