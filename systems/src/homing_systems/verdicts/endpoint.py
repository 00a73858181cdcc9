"""`POST /send-verdict-email`: one verdict in, what has become of it out."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

from homing.domain.errors import InvalidRequest
from homing.domain.failure import Failure
from homing.plugins import HttpRequest, HttpResponse, Service
from homing_systems.verdicts.delivering import Outcome, deliver, report
from homing_systems.verdicts.graph_answers import error_code
from homing_systems.verdicts.verdict import Verdict

PATH = "/send-verdict-email"
STATUS = {"sent": 200, "queued": 202, "dead": 200, "cache_only": 200}
SEND_FAILED = 502
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class VerdictBody(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`verdict` is taken from the body unchanged, byte for byte."""

    session_id: str
    payment_status: str | None
    customer_email: str | None
    tier: str
    query: str
    verdict: Raw
    retry_id: str | None = None


_body = msgspec.json.Decoder(VerdictBody)
_object = msgspec.json.Decoder(dict[str, Raw])


async def send_verdict_email(service: Service[Any], request: HttpRequest) -> HttpResponse:
    try:
        body = _body.decode(request.body)
    except msgspec.ValidationError as error:
        raise InvalidRequest("body", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return HttpResponse(status=400, json={"detail": "the body is not JSON"})
    verdict = verdict_from(body)
    if body.retry_id is None:
        return answer_for(await deliver(service, verdict))
    if not _UUID.fullmatch(body.retry_id):
        raise InvalidRequest("retry_id", "must be a UUID")
    done = await report(service, verdict, body.retry_id)
    if not isinstance(done, Failure):
        return answer_for(done)
    failed = {"outcome": "failed", "code": error_code(done.code), "detail": done.detail}
    return HttpResponse(status=SEND_FAILED, json=failed)


def verdict_from(body: VerdictBody) -> Verdict:
    return Verdict(
        session_id=body.session_id,
        customer_email=body.customer_email,
        tier=body.tier,
        query=body.query,
        verdict=verdict_text(bytes(body.verdict)),
        payment_status=body.payment_status,
    )


def verdict_text(data: bytes) -> str:
    """The JSON text of a verdict, unchanged; InvalidRequest if it is not an object."""
    try:
        _object.decode(data)
        return data.decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidRequest("verdict", "must be a JSON object") from None


def body_for(verdict: Verdict) -> bytes:
    """The request that asks another process to deliver it."""
    return msgspec.json.encode(
        VerdictBody(
            session_id=verdict.session_id,
            payment_status=verdict.payment_status,
            customer_email=verdict.customer_email,
            tier=verdict.tier,
            query=verdict.query,
            verdict=Raw(verdict.verdict.encode()),
        )
    )


def answer_for(done: Outcome) -> HttpResponse:
    words: dict[str, str] = {"outcome": done.outcome}
    if done.outcome in ("queued", "dead") and done.retry_id is not None:
        words["retry_id"] = done.retry_id
    return HttpResponse(status=STATUS[done.outcome], json=words)
