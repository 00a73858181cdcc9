"""`GraphProvider`: the `Provider` port over one mailbox of Microsoft Graph."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Callable
from typing import Self
from urllib.parse import parse_qs

import httpx2

from homing.domain.delivery import Receipt
from homing.domain.errors import SettingsError
from homing.domain.failure import Failure
from homing.ports import Absent, Accepted, Envelope, Finding, Found, Ready, SoundAlert, Unknown
from homing.providers.graph.answers import ACCEPTED
from homing.providers.graph.http import exchange, new_client
from homing.providers.graph.mailbox import TIDY_UP_S, Mailbox, failure_from
from homing.providers.graph.recipients import mime_for
from homing.providers.graph.settings import ENV_FILE, GraphSettings, settings_from
from homing.providers.graph.slots import MOST_REQUESTS, Slot, Slots
from homing.providers.graph.tokens import Tokens
from homing.runtime import forks

log = logging.getLogger("homing.graph")

TOKEN_LOST = "token_lost"  # noqa: S105 - the kind of an alert
# A draft that is still one after this time is not on its way: Graph sends within seconds.
SETTLE_S = 300.0
ASK_AGAIN_S = 30.0


class GraphProvider:
    """Mail through the mailbox of `sender`.

    With the permission Mail.ReadWrite a send is a draft first, which is then sent. So a lost
    answer can be looked up: by the Message-ID, whose local part is the token of the delivery.
    Without it `sendMail` is used, and a lost answer stays in doubt.
    """

    token_window_s = 0.0
    description = "Microsoft Graph"
    # As many again wait for a slot, so that none is idle between two sends.
    most_at_once = 2 * MOST_REQUESTS

    def __init__(self, settings: GraphSettings) -> None:
        self.settings = settings
        self.sender = settings.sender
        self._sound: SoundAlert | None = None
        self._start()
        forks.forget_in_child(self)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """`graph:`, or `graph:?env_file=PATH` for another default of GRAPH_ENV_FILE.

        Raises SettingsError that names the variable at fault and shows no secret.
        """
        query = url.split(":", 1)[1].lstrip("/")
        found = parse_qs(query.removeprefix("?"), keep_blank_values=True)
        if query and not (query.startswith("?") and list(found) == ["env_file"]):
            raise SettingsError("provider", "graph: takes env_file alone; set GRAPH_* variables")
        return cls(settings_from(os.environ, env_file=found.get("env_file", [ENV_FILE])[-1]))

    @property
    def stays_local(self) -> bool:
        return self.settings.stays_local

    @property
    def may_look_up(self) -> bool:
        """Until the permissions of a token are known, `lookup` may be tried."""
        return self._tokens.may_draft is not False

    def sound_alerts(self, sound: SoundAlert) -> None:
        self._sound = sound

    async def prepare(self, envelope: Envelope) -> Ready | Failure:
        """Have a request slot, an access token and, if that is permitted, the draft."""
        mime = mime_for(envelope)
        if isinstance(mime, Failure):
            return mime
        slot = await self._slots.take()
        try:
            ready = await self._prepared(mime, slot)
        except BaseException:
            slot.release()
            raise
        if isinstance(ready, Failure):
            slot.release()
        return ready

    async def _prepared(self, mime: bytes, slot: Slot) -> Ready | Failure:
        token = await self._tokens.current()
        if isinstance(token, Failure):
            return token
        if not token.may_draft:
            return _MailSend(self._mailbox, slot, mime)
        draft_id = await self._mailbox.create_draft(mime)
        if isinstance(draft_id, Failure):
            return draft_id
        return _DraftSend(self._mailbox, slot, draft_id, self._remove_later)

    async def lookup(
        self, token: str, notification_id: str | None = None
    ) -> Found | Absent | Unknown:
        """A copy that is no draft was sent. Nothing found is no evidence: copies can be deleted."""
        del notification_id
        access = await self._tokens.current()
        if isinstance(access, Failure):
            return Unknown(ASK_AGAIN_S)
        if not access.may_draft:
            return Unknown(0.0)  # from now on `may_look_up` says that it is useless to ask
        slot = await self._slots.take()
        try:
            return await self._looked_up(token)
        finally:
            slot.release()

    async def _looked_up(self, token: str) -> Found | Absent | Unknown:
        domain = self.sender.rpartition("@")[2]
        copies = await self._mailbox.copies(f"<{token}@{domain}>")
        if isinstance(copies, Failure) or not copies:
            return Unknown(ASK_AGAIN_S)
        for copy in copies:
            if not copy.is_draft:
                return Found(Receipt(copy.id, copy.sent_at_ms, "lookup"))
        if any(copy.age_s < SETTLE_S for copy in copies):
            return Unknown(ASK_AGAIN_S)
        gone = [await self._mailbox.delete(copy.id) for copy in copies]
        return Absent() if all(gone) else Unknown(ASK_AGAIN_S)

    async def findings(self) -> list[Finding]:
        """For `doctor` and the health of a route. No token is spent and nothing is sent."""
        found = [*self._file_findings(), *self._state_findings()]
        login = f"{self.settings.login_url}/{self.settings.tenant_id}"
        url = f"{login}/v2.0/.well-known/openid-configuration"
        answer = await exchange(self._client, "GET", url)
        if isinstance(answer, Failure):
            return [*found, Finding("provider", "bad", f"{login}: {answer.detail}")]
        if answer.status_code != 200:
            said = f"{login} answers {answer.status_code}: is the tenant right?"
            return [*found, Finding("provider", "bad", said)]
        return [*found, Finding("provider", "good", "the login service answers for this tenant")]

    def _file_findings(self) -> list[Finding]:
        path = self.settings.env_file
        try:
            mode, folder = path.stat().st_mode, path.absolute().parent
        except OSError as error:
            return [Finding("graph token", "bad", f"{path}: {error.strerror}")]
        found = []
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            said = f"{path} is open to other users; chmod 600 it"
            found.append(Finding("graph token", "warning", said))
        if not os.access(folder, os.W_OK | os.X_OK):
            said = f"new refresh tokens cannot be stored: {folder} is not writable"
            found.append(Finding("graph token", "bad", said))
        elif folder.stat().st_mode & stat.S_IWGRP:
            said = f"the group of {folder} can replace {path.name}"
            found.append(Finding("graph token", "warning", said))
        return found

    def _state_findings(self) -> list[Finding]:
        found = []
        if self._tokens.problem is not None:
            found.append(Finding("graph token", "bad", self._tokens.problem))
        if self._tokens.is_unsaved:
            said = "the newest refresh token is not in the file"
            found.append(Finding("graph token", "bad", said))
        if self._slots.problem is not None:
            said = f"the limit of requests holds for each process alone: {self._slots.problem}"
            found.append(Finding("graph requests", "warning", said))
        return found

    async def open(self) -> None:
        """Make it usable again after `close`."""
        if self._client.is_closed:
            self._start()

    async def close(self) -> None:
        await self._tokens.close()
        if self._removing:
            await asyncio.wait(self._removing, timeout=TIDY_UP_S)
        self._slots.close()
        await self._client.aclose()

    def _forget_parent(self) -> None:
        self._slots.leave_to_parent()
        forks.leave_to_parent(self._client)
        self._start()

    def _remove_later(self, draft_id: str, slot: Slot) -> None:
        task = asyncio.create_task(self._remove(self._mailbox, draft_id, slot))
        self._removing.add(task)
        task.add_done_callback(self._removing.discard)

    async def _remove(self, mailbox: Mailbox, draft_id: str, slot: Slot) -> None:
        try:
            if not await mailbox.delete(draft_id):
                log.info("graph_draft_left id=%s", draft_id)
        finally:
            slot.release()

    def _start(self) -> None:
        self._removing: set[asyncio.Task[None]] = set()
        self._client: httpx2.AsyncClient = new_client(local=self.settings.stays_local)
        self._slots = Slots(self.settings.env_file, self.sender)
        self._tokens = Tokens(self.settings, self._client, self._token_lost)
        self._mailbox = Mailbox(self.settings, self._client, self._tokens)

    async def _token_lost(self, text: str) -> None:
        if self._sound is None:
            return
        try:
            await self._sound(TOKEN_LOST, self.sender, text)
        except Exception:  # the mail is sent all the same
            log.exception("graph_alarm_failed")


class _MailSend:
    """One request sends it."""

    def __init__(self, mailbox: Mailbox, slot: Slot, mime: bytes) -> None:
        self._mailbox = mailbox
        self._slot = slot
        self._mime = mime

    async def commit(self) -> Accepted | Failure:
        try:
            answer = await self._mailbox.send(self._mime)
        finally:
            self._slot.release()
        return _outcome(answer)

    async def abandon(self) -> None:
        self._slot.release()


class _DraftSend:
    """The draft is there, and one request without a body sends it.

    A draft that is certainly not sent is removed in the background, still in the same slot: the
    outcome is known and does not wait.
    """

    def __init__(
        self, mailbox: Mailbox, slot: Slot, draft_id: str, remove: Callable[[str, Slot], None]
    ) -> None:
        self._mailbox = mailbox
        self._slot = slot
        self._draft_id = draft_id
        self._remove = remove

    async def commit(self) -> Accepted | Failure:
        try:
            answer = await self._mailbox.send_draft(self._draft_id)
        except BaseException:
            self._slot.release()
            raise
        outcome = _outcome(answer, self._draft_id)
        if isinstance(outcome, Accepted) or outcome.maybe_sent:
            self._slot.release()
            return outcome
        if outcome.code == "404":
            outcome = Failure("draft_missing", code="404", detail=outcome.detail)
        await self.abandon()
        return outcome

    async def abandon(self) -> None:
        self._remove(self._draft_id, self._slot)


def _outcome(answer: httpx2.Response | Failure, name: str = "") -> Accepted | Failure:
    if isinstance(answer, Failure):
        return answer
    if answer.status_code != ACCEPTED:
        return failure_from(answer)
    return Accepted(Receipt(name or str(answer.headers.get("request-id", ""))))
