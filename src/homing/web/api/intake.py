"""REST intake: a request becomes a stored delivery, or a refusal that names the field."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from starlette.responses import Response

from homing.content.characters import check_line
from homing.domain.delivery import Delivery
from homing.domain.errors import IdempotencyConflict, InvalidRequest, StoreError
from homing.domain.message import Attachment, Email, Invitation
from homing.engine.intake.request import Request, SubmitOptions
from homing.engine.ops.verbs import VERBS
from homing.engine.route import Route
from homing.runtime.app import Homing
from homing.runtime.mail_route import MAIL_ROUTE
from homing.settings.tree import LimitSettings
from homing.web.api.schemas import (
    VERB_BODIES,
    AcceptedOut,
    BatchAnswer,
    BatchIn,
    BatchItem,
    BatchOut,
    DeliveryIn,
    EmailIn,
)
from homing.web.http.answers import json_answer
from homing.web.http.bodies import Bodies
from homing.web.http.calls import Call
from homing.web.http.problems import BadRequest
from homing.web.http.reading import checked_key, idempotency_key
from homing.web.http.strict_json import parse

T = TypeVar("T")

# JSON around the bodies: names, addresses, variables, escapes.
OVERHEAD = 2
MAX_BATCH_BYTES = 8_000_000
# Nothing decoded is larger than about 25 times its JSON: below this the form may be anything.
HARMLESS_BYTES = 262_144
# To check and copy one takes about 2 microseconds, in the event loop.
MAX_VALUES = 100_000


class Intake:
    def __init__(self, homing: Homing, bodies: Bodies, limits: LimitSettings) -> None:
        self._homing = homing
        self._bodies = bodies
        self._message_bytes = limits.body_bytes * OVERHEAD
        self.limit_bytes = self._message_bytes + limits.attachments_bytes * 4 // 3
        self._first_words: dict[tuple[str, str, str], str] = {}
        # When the store last refused a write, unless one has succeeded since.
        # When the store has refused a write last, and why, unless one has succeeded since.
        self.refusal: tuple[float, StoreError] | None = None

    async def post(self, call: Call) -> Response:
        """One e-mail: 202 when it is new, 200 when it repeats an earlier request."""
        key = idempotency_key(call)
        given = await self.read(call, DeliveryIn, self.limit_bytes)
        route = self._route(given.route)
        ticket = await self._stored(
            self._homing.submit(email_of(given), key=key, route=route, **_options(given))
        )
        delivery = ticket.delivery
        if not ticket.created:
            return json_answer(AcceptedOut(delivery.id, self._word(delivery), created=False))
        return json_answer(AcceptedOut(delivery.id, self._first_word(delivery), created=True), 202)

    async def post_batch(self, call: Call) -> Response:
        """Many at once, one durable write; conflicts are answered in their place."""
        given = await self.read(call, BatchIn, MAX_BATCH_BYTES)
        batch = [self._item(f"items[{n}]", item) for n, item in enumerate(given.items)]
        try:
            tickets = await self._stored(self._homing.submit_requests(batch))
        except InvalidRequest as error:
            raise self._in_its_place(batch, error) from error
        answers: list[BatchAnswer] = []
        for item, ticket in zip(given.items, tickets, strict=True):
            key = item.idempotency_key
            if isinstance(ticket, IdempotencyConflict):
                answers.append(BatchAnswer(key, ticket.delivery_id, conflict=True))
            else:
                word = self._word(ticket.delivery)
                answers.append(BatchAnswer(key, ticket.delivery_id, word, ticket.created))
        any_new = any(answer.created for answer in answers)
        return json_answer(BatchOut(answers), 202 if any_new else 200)

    async def _stored(self, work: Awaitable[T]) -> T:
        try:
            done = await work
        except StoreError as error:
            self.refusal = self._homing.engine.clock.steady_s(), error
            raise
        self.refusal = None
        return done

    async def read(self, call: Call, kind: type[T], limit_bytes: int) -> T:
        """The body as its type."""
        body = await self._bodies.read(call, limit_bytes)
        if len(body) > HARMLESS_BYTES:
            check_form(body, kind, self._message_bytes)
        return parse(body, kind)

    def _item(self, place: str, item: BatchItem) -> tuple[str, Request]:
        key = checked_key(item.idempotency_key, f"{place}.idempotency_key")
        route = self._route(item.route, f"{place}.route")
        options = _options(item, f"{place}.")
        return route, Request(message=email_of(item), key=key, **options)

    def _in_its_place(
        self, batch: Sequence[tuple[str, Request]], error: InvalidRequest
    ) -> InvalidRequest:
        """The same refusal, named by the item that it is about."""
        engine = self._homing.engine
        for number, (route, request) in enumerate(batch):
            try:
                engine.admission.prepare(engine.routes[route], request)
            except InvalidRequest as found:
                return type(found)(f"items[{number}].{found.field}", found.problem)
        return error

    def _route(self, name: str | None, field: str = "route") -> str:
        """The mail route unless another one is named that takes e-mails."""
        if name is None:
            return MAIL_ROUTE
        route = self._homing.engine.routes.get(name)
        if route is None or not takes_emails(route) or not self._homing.works_on(name):
            raise BadRequest("there is no such route for e-mails", field, 422)
        return name

    def _first_word(self, delivery: Delivery) -> str:
        """What a new one is called: the same for all that are equally new."""
        kind = (delivery.route, delivery.state, delivery.stage)
        word = self._first_words.get(kind)
        if word is None:
            word = self._first_words[kind] = self._word(delivery)
        return word

    def _word(self, delivery: Delivery) -> str:
        return self._homing.engine.routes[delivery.route].word(delivery)


def takes_emails(route: Route) -> bool:
    return route.provider is not None


def email_of(given: EmailIn) -> Email:
    return Email(
        to=given.to,
        subject=given.subject,
        text=given.text,
        html=given.html,
        sender=given.sender,
        cc=given.cc,
        bcc=given.bcc,
        reply_to=given.reply_to,
        attachments=tuple(
            Attachment(item.filename, item.content_base64, item.content_type, item.content_id)
            for item in given.attachments
        ),
        invitation=None
        if given.invitation is None
        else Invitation(given.invitation.ics, given.invitation.method),
        headers=given.headers,
        template_id=given.template_id,
        locale=given.locale,
        variables=given.variables,
        metadata=given.metadata,
    )


def _options(given: DeliveryIn, place: str = "") -> SubmitOptions:
    if given.source:
        check_line(given.source, f"{place}source")
        if given.source.startswith("homing."):
            raise BadRequest("is reserved", f"{place}source", 422)
    return {
        "source": given.source,
        "priority": given.priority,
        "send_at": given.send_at,
        "expires_at": given.expires_at,
    }


class _Outline(Struct, frozen=True):
    attachments: Raw = Raw(b"")


class _AmendOutline(Struct, frozen=True):
    email: _Outline = _Outline()


# Where attachments are in the bodies that may have them.
OUTLINES: dict[Any, Any] = {DeliveryIn: _Outline} | {
    VERB_BODIES[name]: _AmendOutline for name, row in VERBS.items() if row.takes("email")
}


def check_form(body: bytes, kind: Any, message_bytes: int) -> None:
    """Refuse what would grow in memory or take long, before anything of it is decoded."""
    if kind in OUTLINES:
        _check_size(body, OUTLINES[kind], message_bytes)
    if _signs(body) > MAX_VALUES and _has_many_values(body):
        raise BadRequest(f"holds more than {MAX_VALUES:,} values", "body", 413)


def _check_size(body: bytes, form: Any, message_bytes: int) -> None:
    """Only attachments may be large."""
    try:
        outline = msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # the parser reports what is wrong
    found = outline.email if isinstance(outline, _AmendOutline) else outline
    if len(body) - len(memoryview(found.attachments)) > message_bytes:
        raise BadRequest(
            f"is larger than {message_bytes:,} bytes without its attachments", "body", 413
        )


def _signs(text: bytes) -> int:
    """At least the number of values: each follows a comma or begins an array or object."""
    return text.count(b",") + text.count(b"{") + text.count(b"[")


def _has_many_values(body: bytes) -> bool:
    """Signs within texts do not count. A value has two texts at most, itself and its name."""
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if unescaped.count(b'"') > 4 * MAX_VALUES:
        return True
    return _signs(b"".join(unescaped.split(b'"')[::2])) > MAX_VALUES
