"""One delivery: why it stands where it stands, its history, what it carries, and the acts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from homing.domain.delivery import Delivery
from homing.domain.errors import NotFound
from homing.domain.message import Email
from homing.engine.ops.verbs import VERBS, Verb
from homing.engine.ops.views import attempt_view, audit_view
from homing.ports import Query
from homing.runtime.app import Homing
from homing.web.api.listing import Listing
from homing.web.api.schemas import VERB_BODIES, VerbIn
from homing.web.api.verbs import Verbs
from homing.web.console.actions import offered
from homing.web.console.deliveries import Deliveries, Row
from homing.web.console.payloads import (
    MAX_SHOWN_CHARS,
    MailParts,
    carried,
    email_of,
    framed,
    mail_parts,
)
from homing.web.console.rendering import Rendering
from homing.web.console.timeline import timeline
from homing.web.console.visits import Form, Page, Visit
from homing.web.http.answers import HTML, Answer
from homing.web.http.problems import BadRequest

# What `why` says of the past begins with a time; the timeline shows that.
_PAST = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ ")
_NUMBER = re.compile(r"[0-9]{1,4}")
VIEWS = ("text", "html", "headers", "source")
FIELDS = frozenset({"view", "did"})
CHILDREN = 50
# The mail of a stranger: no script, no form, and nothing is loaded from anywhere.
FRAME_POLICY = (
    b"content-security-policy",
    (
        b"default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox;"
        b" frame-ancestors 'self'"
    ),
)
FILE_POLICY = (b"content-security-policy", b"default-src 'none'; sandbox")
ADDRESSES = ("to", "cc", "bcc", "reply_to")


class DeliveryPage:
    def __init__(
        self,
        homing: Homing,
        listing: Listing,
        verbs: Verbs,
        deliveries: Deliveries,
        rendering: Rendering,
    ) -> None:
        self._homing = homing
        self._listing = listing
        self._verbs = verbs
        self._deliveries = deliveries
        self._rendering = rendering

    def pages(self) -> Iterable[Page]:
        one = "/deliveries/{delivery_id}"
        yield Page("GET", one, "read", self.show)
        yield Page("GET", f"{one}/html", "read", self.frame)
        yield Page("GET", f"{one}/source", "read", self.source)
        yield Page("GET", f"{one}/files/{{number}}", "read", self.file)
        for verb in VERBS:
            yield Page("POST", f"{one}/{verb}", "operate", self._use(verb))

    async def show(self, visit: Visit) -> Response:
        fields = visit.query(FIELDS)
        ops = visit.ops
        delivery = await ops.show(visit.param("delivery_id"))
        route = self._homing.engine.routes.get(delivery.route)
        attempts = [attempt_view(each) for each in await ops.attempts(delivery.id)]
        audit = [audit_view(fact) for fact in await ops.audit(delivery.id)]
        content = await ops.content(delivery.id) if ops.sees_personal_data else None
        [row] = await self._deliveries.rows(visit, [delivery])
        carries = carried(content)
        return self._rendering.page(
            visit,
            "delivery.html",
            place="deliveries",
            row=row,
            view=row.view,
            why=await explanation(visit, delivery.id),
            moments=timeline(delivery, row.view, attempts, audit),
            carries=carries,
            shown=_shown(fields.get("view"), carries.mail),
            actions=offered(delivery, route),
            email=(email := email_of(content)),
            can_edit=email is not None
            and len(email.text) + len(email.html or "") <= MAX_SHOWN_CHARS,
            done=_done(fields.get("did")),
            children=await self._rows(visit, Query(parent_id=delivery.id))
            if delivery.fanned_out
            else [],
            copies=await self._rows(visit, Query(clone_of=delivery.id)),
            delivery=delivery,
        )

    async def _rows(self, visit: Visit, query: Query) -> list[Row]:
        page = await visit.ops.page(query, None, CHILDREN)
        return await self._deliveries.rows(visit, page.items)

    async def frame(self, visit: Visit) -> Response:
        """The HTML of a mail, for a sandboxed frame."""
        _, mail = await self._mail(visit)
        body = framed(mail) or "<p>There is no HTML in this mail.</p>"
        return Answer(body.encode(), 200, HTML, (FRAME_POLICY,))

    async def source(self, visit: Visit) -> Response:
        """The whole of what is sent, as a file."""
        delivery_id = visit.param("delivery_id")
        content = await visit.ops.content(delivery_id)
        raw = b"" if content is None else content.results.get("frozen", b"")
        if not raw:
            raise NotFound("its source is made at its first attempt")
        return _file(raw, f"{delivery_id}.eml", "message/rfc822")

    async def file(self, visit: Visit) -> Response:
        """An attachment, which a browser keeps and does not show."""
        email, _ = await self._mail(visit)
        number = visit.param("number")
        if not _NUMBER.fullmatch(number) or int(number) >= len(email.attachments):
            raise NotFound("there is no such attachment")
        found = email.attachments[int(number)]
        return _file(found.content, found.filename, "application/octet-stream")

    async def _mail(self, visit: Visit) -> tuple[Email, MailParts]:
        delivery_id = visit.param("delivery_id")
        content = await visit.ops.content(delivery_id)
        email = email_of(content)
        if email is None or content is None:
            raise NotFound(f"{delivery_id} carries no mail")
        return email, mail_parts(email, content)

    def _use(self, verb: Verb) -> Any:
        async def act(visit: Visit) -> Response:
            form = await visit.form()
            delivery_id = visit.param("delivery_id")
            before = await visit.ops.show(delivery_id)
            given = await self._given(verb, before, form, visit)
            after = await self._verbs.use(visit.call, verb, delivery_id, given)
            return visit.see("deliveries", after.id, did=verb)

        return act

    async def _given(self, verb: Verb, before: Delivery, form: Form, visit: Visit) -> VerbIn:
        """The form as the body that REST would take."""
        given: dict[str, Any] = {"actor": visit.person, "reason": form.get("reason").strip()}
        for each in VERBS[verb].arguments:
            if each.kind == "email":
                # It begins with what is there: who redirected it could read it.
                kept = email_of(await visit.ops.content(before.id))
                given[each.name] = _amended(kept, form)
            elif form.get(each.name):
                given[each.name] = form.get(each.name)
        try:
            return msgspec.convert(given, VERB_BODIES[verb], strict=False)
        except msgspec.ValidationError as error:
            raise BadRequest(_readable(str(error)), "form", 422) from None


async def explanation(visit: Visit, delivery_id: str) -> list[str]:
    """The sentences of `why` on its current state and what comes next; its parts come last."""
    said = await visit.ops.explain(delivery_id)
    lines = [line for line in said if not _PAST.match(line)]
    return sorted(lines, key=lambda line: line.startswith("  "))


def _done(verb: str | None) -> str | None:
    return next((row.done for row in VERBS.values() if row.name == verb), None)


def _shown(asked: str | None, mail: MailParts | None) -> str:
    if mail is None:
        return ""
    default = "text" if mail.text else "html"
    return asked if asked in VIEWS else default


def _amended(kept: Email | None, form: Form) -> dict[str, Any]:
    """The mail as it was, with what the form says instead."""
    email: dict[str, Any] = {} if kept is None else msgspec.to_builtins(kept)
    email.pop("kind", None)
    email["attachments"] = [
        {
            "filename": each.filename,
            "content_base64": each.content,
            "content_type": each.content_type,
            "content_id": each.content_id,
        }
        for each in (() if kept is None else kept.attachments)
    ]
    if "sender" in email:
        email["from"] = email.pop("sender")
    for name in ADDRESSES:
        if form.every(name):
            email[name] = [
                part.strip() for part in re.split(r"[,\n]", form.get(name)) if part.strip()
            ]
    for name in ("subject", "text"):
        if form.every(name):
            email[name] = form.get(name)
    if form.get("html"):
        email["html"] = form.get("html")
    return email


def _readable(problem: str) -> str:
    """`Object missing required field `reason`` in the words of a person."""
    if "`reason`" in problem or "$.reason" in problem:
        return "say why: the reason is kept in the history"
    if "evidence" in problem:
        return "say how it is known that it arrived"
    return problem


def _file(body: bytes, name: str, kind: str) -> Answer:
    safe = quote(name.replace("/", "_"), safe="")
    disposition = f"attachment; filename*=UTF-8''{safe}".encode("ascii")
    return Answer(body, 200, kind.encode(), (FILE_POLICY, (b"content-disposition", disposition)))
