"""Side doors to personal data: what a masked page still tells by search, filters or free texts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
from msgspec.structs import replace

from homing.domain.delivery import Attempt, Cycle, Receipt, Recipient
from homing.domain.failure import Failure
from homing.domain.message import Email
from homing.engine.ops.masking import HIDDEN, masked_delivery
from homing.engine.ops.views import delivery_view
from homing.engine.ops.why import explain
from homing.settings.tree import ServerSettings
from tests.unit.web.conftest import Api
from tests.unit.web.people import (
    browser,
    cheap_passwords,  # noqa: F401 - a fixture
    sign_in,
    with_people,
)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with with_people() as api:
        yield api


async def sent(api: Api, to: str, key: str = "k-1") -> str:
    """A dead letter, as a program with a token submits it."""
    mail = Email(to=to, subject="Anna Canary", text="x")
    ticket = await api.homing.submit(mail, key=key)
    await api.work()
    return ticket.delivery_id


class TestSearch:
    @pytest.mark.parametrize(
        "text",
        ["ann@example.org", "ann\uff20example.org", "ANN@EXAMPLE.ORG", '"ann b"@example.org'],
    )
    async def test_it_is_no_oracle_for_addresses(self, api: Api, text: str) -> None:
        """The same answer for an address that has mail and for one that has none."""
        answers = set()
        await sign_in(api.client, "the viewer")
        for known in (False, True):
            if known:
                await sent(api, "ann@example.org")
                await sent(api, '"ann b"@example.org', "k-2")
            for path in ("/search", "/api/v1/search"):
                answer = await api.client.get(path, params={"q": text})
                answers.add((path, known, answer.status_code, answer.headers.get("location")))
        assert len({(path, *told) for path, _, *told in answers}) == 2

    async def test_keys_that_hold_an_address_cannot_be_asked_for(self, api: Api) -> None:
        await sent(api, "bounce@stub.test", key="welcome-ann@example.org")
        await sign_in(api.client, "the viewer")
        for path in ("/deliveries", "/export", "/api/v1/deliveries", "/api/v1/export"):
            for key in ("welcome-ann@example.org", "welcome-bob@example.org"):
                answer = await api.client.get(path, params={"key": key})
                assert answer.status_code == 403
            plain = await api.client.get(path, params={"key": "order-7"})
            assert plain.status_code == 200

    async def test_nor_can_a_source_that_holds_one(self, api: Api) -> None:
        await sign_in(api.client, "the viewer")
        for path in ("/deliveries", "/export", "/api/v1/deliveries", "/api/v1/export"):
            for source, status in (("ann@example.org", 403), ("shop", 200)):
                answer = await api.client.get(path, params={"source": source})
                assert answer.status_code == status


class TestFreeTexts:
    async def test_the_evidence_of_an_operator_is_hidden(self, api: Api) -> None:
        delivery = await api.homing.ops.show(await sent(api, "ok@stub.test"))
        said = "Anna Canary has phoned"
        for receipt, shown in (
            (Receipt(evidence="operator", detail=said), HIDDEN),
            (Receipt(evidence="lookup", detail=said), said),
        ):
            masked = masked_delivery(replace(delivery, receipt=receipt)).receipt
            assert masked is not None
            assert masked.detail == shown

    async def test_sentences_name_no_recipient_that_is_not_an_address(self, api: Api) -> None:
        delivery = await api.homing.ops.show(await sent(api, "ok@stub.test"))
        people = tuple(Recipient(name) for name in ("anna-canary", "bob-canary"))
        masked = masked_delivery(replace(delivery, recipients=people))
        said = " ".join(explain(masked, [], None, now_ms=0))
        assert "canary" not in said
        assert "a***" in said

    async def test_the_reason_of_a_pause_is_hidden(self, api: Api) -> None:
        reason = "ann@example.org complains"
        await api.homing.ops.pause("mail", actor="bob", reason=reason)
        for role, seen in (("viewer", False), ("operator", True)):
            client = browser(api.app)
            await sign_in(client, f"the {role}")
            for path in ("/", "/routes", "/routes/mail"):
                page = (await client.get(path)).text
                for text in ("ann@example.org", "complains"):
                    assert (text in page) == (seen and path != "/routes")

    async def test_nor_does_why_tell_it(self, api: Api) -> None:
        await api.homing.ops.pause("mail", actor="bob", reason="Anna Canary complains")
        delivery_id = await sent(api, "ok@stub.test")
        for role, seen in (("viewer", False), ("operator", True)):
            client = browser(api.app)
            await sign_in(client, f"the {role}")
            said = (await client.get(f"/api/v1/deliveries/{delivery_id}/why")).text
            assert "paused" in said
            assert ("complains" in said) == seen


async def test_attempts_quote_no_address(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    delivery_id = await sent(api, "bounce@stub.test")
    [attempt] = await api.homing.ops.attempts(delivery_id)
    quoted = replace(attempt, detail="550 anna.canary@example.org is unknown")

    async def attempts(delivery_id: str) -> list[Attempt]:
        del delivery_id
        return [quoted]

    monkeypatch.setattr(api.homing.store, "attempts", attempts)
    for role, seen in (("viewer", False), ("operator", True)):
        await sign_in(api.client, f"the {role}")
        for path in (
            f"/api/v1/deliveries/{delivery_id}/attempts",
            f"/api/v1/deliveries/{delivery_id}/why",
            f"/deliveries/{delivery_id}",
        ):
            assert ("anna.canary" in (await api.client.get(path)).text) == seen, path


async def test_no_text_of_a_delivery_keeps_an_address(api: Api) -> None:
    """Answers of servers are quoted in many places, and some name people."""
    said = "550 anna.canary@example.org is unknown"
    delivery = await api.homing.ops.show(await sent(api, "bounce@stub.test"))
    cycle = Cycle(
        number=1,
        failed_because="rejected",
        attempts=1,
        error_class="recipient_refused",
        last_error=said,
        stage="send",
        replayed_at_ms=0,
        replayed_by="bob",
        reason=said,
    )
    full = replace(
        delivery,
        key=said,
        source=said,
        recipients=(Recipient("anna.canary@example.org", "refused", "550", said),),
        failure=Failure("recipient_refused", "reject", detail=said),
        failure_history=(cycle,),
        receipt=Receipt(detail=said),
        metadata={"said": said},
    )
    view = delivery_view(full, None)
    assert msgspec.json.encode(view).count(b"anna.canary") == 9
    assert b"anna.canary" not in msgspec.json.encode(delivery_view(masked_delivery(full), None))


async def test_who_may_not_see_a_mail_cannot_have_it_sent_to_themselves() -> None:
    """The form of the console changes a part of the mail and keeps the rest."""
    roles = ServerSettings(auth="session", personal_data_roles=("admin",))
    async with with_people(roles) as api:
        delivery_id = await sent(api, "bounce@stub.test")
        await sign_in(api.client, "the operator")
        form = {"to": "me@evil.example", "reason": "x"}
        form["csrf_token"] = api.client.headers["X-CSRF-Token"]
        own = {"Origin": "http://127.0.0.1:8025"}
        answer = await api.client.post(f"/deliveries/{delivery_id}/amend", data=form, headers=own)
        assert answer.status_code == 403
        delivery = await api.homing.ops.show(delivery_id)
        assert [each.address for each in delivery.recipients] == ["bounce@stub.test"]
