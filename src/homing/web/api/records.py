"""What a delivery carries, and what was done by whom, by REST."""

from __future__ import annotations

import base64

import msgspec
from starlette.responses import Response

from homing.domain.delivery import Fact
from homing.domain.errors import NotFound
from homing.engine.ops.reader import AUDIT
from homing.engine.ops.views import audit_view
from homing.runtime.app import Homing
from homing.web.access.seen import ops_for
from homing.web.api.listing import id_of
from homing.web.api.schemas import AuditEntry, AuditLogOut, ContentOut, ContentPart
from homing.web.http.answers import json_answer
from homing.web.http.calls import Call, query_of
from homing.web.http.problems import BadRequest
from homing.web.http.reading import limit_of

LOG_FIELDS = frozenset({"limit", "cursor"})
MAX_DIGITS = 16
NO_FIELDS: frozenset[str] = frozenset()


class Records:
    def __init__(self, homing: Homing) -> None:
        self._homing = homing

    async def content(self, call: Call) -> Response:
        query_of(call.scope, NO_FIELDS)
        found = await ops_for(call.let_in, self._homing).content(id_of(call))
        if found is None:
            raise NotFound("no such delivery")
        return json_answer(
            ContentOut(
                _part(found.payload) if found.payload else None,
                {name: _part(data) for name, data in found.results.items()},
            )
        )

    async def audit_log(self, call: Call) -> Response:
        fields = query_of(call.scope, LOG_FIELDS)
        limit = limit_of(fields)
        after = _decoded(fields["cursor"]) if "cursor" in fields else None
        facts = await ops_for(call.let_in, self._homing).audit_log(after, limit + 1)
        items = [_entry(fact) for fact in facts[:limit]]
        return json_answer(
            AuditLogOut(items, _encoded(facts[limit - 1]) if len(facts) > limit else None)
        )


def _part(data: bytes) -> ContentPart:
    try:
        return ContentPart(json=msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ContentPart(base64=data)


def _entry(fact: Fact) -> AuditEntry:
    view = audit_view(fact)
    subject = fact.key.rpartition("/")[0]
    return AuditEntry(
        subject=subject, at_ms=view.at_ms, verb=view.verb, actor=view.actor, reason=view.reason
    )


def _encoded(fact: Fact) -> str:
    return base64.urlsafe_b64encode(f"{fact.at_ms}:{fact.key}".encode()).rstrip(b"=").decode()


def _decoded(text: str) -> Fact:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True).decode()
        at_ms, _, key = raw.partition(":")
    except ValueError:  # neither base64 nor UTF-8
        at_ms = key = ""
    if not key or not at_ms.isascii() or not at_ms.isdigit() or len(at_ms) > MAX_DIGITS:
        raise BadRequest("is not a cursor; use one of an earlier answer", "cursor")
    return Fact(AUDIT, key, int(at_ms))
