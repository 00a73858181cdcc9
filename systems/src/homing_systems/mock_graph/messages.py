"""sendMail and drafts: what is accepted goes to the ledger before it is answered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from homing_systems.mock_graph.mail import GraphError, Mail, check_recipients, mail_from
from homing_systems.mock_graph.script import Answer, Script
from homing_systems.mock_graph.state import Draft, State

_BY_MESSAGE_ID = re.compile(r"internetMessageId eq '((?:[^']|'')*)'")
# Graph's code for what a script answers.
_CODES = {
    400: "ErrorInvalidRequest",
    401: "InvalidAuthenticationToken",
    403: "ErrorAccessDenied",
    404: "ResourceNotFound",
    413: "ErrorMessageSizeExceeded",
    429: "ApplicationThrottled",
    503: "ServiceUnavailable",
}


class Messages:
    """Only calls that send take an answer of a script: the recipient's, or the general one."""

    def __init__(self, state: State, script: Script, by_recipient: Mapping[str, Script]) -> None:
        self._state = state
        self._script = script
        self._by_recipient = by_recipient

    def send_mail(self, content_type: str, body: bytes, now: str) -> tuple[Answer, Mail]:
        mail = mail_from(content_type, body, wrapped=True)
        check_recipients(mail)
        return self._send(mail, "sendMail", now), mail

    def create(self, content_type: str, body: bytes, now: str) -> dict[str, Any]:
        mail = mail_from(content_type, body, wrapped=False)
        draft = Draft(self._state.new_name("draft"), mail, now)
        self._state.known.drafts[draft.id] = draft
        self._state.save()
        return _shown(draft)

    def send_draft(self, draft_id: str, now: str) -> tuple[Answer, Mail]:
        draft = self._draft(draft_id)
        if draft.sent is not None:
            raise GraphError(400, "ErrorInvalidRequest", "the message is not a draft")
        check_recipients(draft.mail)
        answer = self._send(draft.mail, "draft", now)
        if answer.status == 202:
            draft.sent = now
            self._state.save()
        return answer, draft.mail

    def get(self, draft_id: str) -> dict[str, Any]:
        return _shown(self._draft(draft_id))

    def delete(self, draft_id: str) -> None:
        del self._state.known.drafts[self._draft(draft_id).id]
        self._state.save()

    def find(self, condition: str) -> list[dict[str, Any]]:
        found = _BY_MESSAGE_ID.fullmatch(condition.strip())
        if condition and found is None:
            raise GraphError(501, "NotImplemented", "only internetMessageId eq '…' is known here")
        wanted = None if found is None else found[1].replace("''", "'")
        drafts = self._state.known.drafts.values()
        return [_shown(each) for each in drafts if wanted in (None, each.mail.message_id)]

    def _draft(self, draft_id: str) -> Draft:
        draft = self._state.known.drafts.get(draft_id)
        if draft is None:
            raise GraphError(404, "ErrorItemNotFound", "there is no such message")
        return draft

    def _send(self, mail: Mail, via: str, now: str) -> Answer:
        scripts = (self._by_recipient.get(address.lower()) for address in mail.recipients)
        answer = next((each for each in scripts if each is not None), self._script).next()
        if answer.status == 202:
            self._state.accept(mail, via, now)
        return answer


def error_of(status: int) -> GraphError:
    return GraphError(status, _CODES.get(status, "ErrorInternalServerError"), "by the script")


def _shown(draft: Draft) -> dict[str, Any]:
    return {
        "id": draft.id,
        "subject": draft.mail.subject,
        "internetMessageId": draft.mail.message_id,
        "isDraft": draft.sent is None,
        "createdDateTime": draft.created,
        "sentDateTime": draft.sent or draft.created,
    }
