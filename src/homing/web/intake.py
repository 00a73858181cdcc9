"""REST intake: what comes in becomes a delivery, durably, or a refusal that names the field."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from homing.app import Homing
from homing.domain.errors import IdempotencyConflict
from homing.domain.message import Attachment, Email
from homing.engine.admission import Ticket
from homing.settings.tree import LimitSettings
from homing.web.problems import BadRequest
from homing.web.reading import idempotency_key, parse, read_body
from homing.web.schemas import AcceptedOut, BatchAnswer, BatchIn, BatchOut, DeliveryIn

# JSON around the bodies: names, addresses, variables, escapes.
OVERHEAD = 2


class Intake:
    def __init__(self, homing: Homing, limits: LimitSettings) -> None:
        self._homing = homing
        self._limit_bytes = limits.body_bytes * OVERHEAD + limits.attachments_bytes * 4 // 3

    async def post(self, request: Request) -> Response:
        """One e-mail: 202 when it is new, 200 when this very request was here before."""
        key = idempotency_key(request)
        given = parse(await read_body(request, self._limit_bytes), DeliveryIn)
        ticket = await self._homing.submit(email_of(given), key=key, **_words(given))
        answer = AcceptedOut(ticket.delivery_id, self._word(ticket), ticket.created)
        return _json(answer, 202 if ticket.created else 200)

    async def post_batch(self, request: Request) -> Response:
        """Many at once, one durable write; conflicts are answered in their place."""
        given = parse(await read_body(request, self._limit_bytes), BatchIn)
        answers: list[BatchAnswer] = []
        requests = [(item.idempotency_key, email_of(item), _words(item)) for item in given.items]
        tickets = await self._homing.submit_batch(requests)
        for item, ticket in zip(given.items, tickets, strict=True):
            if isinstance(ticket, IdempotencyConflict):
                answers.append(BatchAnswer(item.idempotency_key, ticket.delivery_id, conflict=True))
                continue
            answers.append(
                BatchAnswer(
                    item.idempotency_key, ticket.delivery_id, self._word(ticket), ticket.created
                )
            )
        return _json(BatchOut(answers), 202)

    def _word(self, ticket: Ticket) -> str:
        return self._homing.engine.routes[ticket.delivery.route].word(ticket.delivery)


def email_of(given: DeliveryIn) -> Email:
    return Email(
        to=given.to,
        subject=given.subject,
        text=given.text,
        html=given.html,
        sender=given.sender,
        cc=given.cc,
        bcc=given.bcc,
        reply_to=given.reply_to,
        attachments=[
            Attachment(item.filename, item.content_base64, item.content_type)
            for item in given.attachments
        ],
        headers=given.headers,
        template_id=given.template_id,
        locale=given.locale,
        variables=given.variables,
        metadata=given.metadata,
    )


def _words(given: DeliveryIn) -> dict[str, Any]:
    if given.source.startswith("homing."):
        raise BadRequest("is reserved", "source", 422)
    return {
        "route": given.route,
        "source": given.source,
        "priority": given.priority,
        "not_before_ms": given.not_before_ms,
        "expires_at_ms": given.expires_at_ms,
    }


def _json(value: object, status: int) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
