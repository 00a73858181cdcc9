"""Signing in and out by REST, and who has access: people and tokens."""

from __future__ import annotations

from starlette.responses import Response

from homing.engine.access.tokens import RIGHTS
from homing.runtime.app import Homing
from homing.web.access.auth import AccessCheck
from homing.web.access.cookies import Header
from homing.web.api.intake import Intake
from homing.web.api.schemas import (
    MeOut,
    SignInIn,
    SignOutIn,
    TokenOut,
    TokensOut,
    UserOut,
    UsersOut,
)
from homing.web.http.answers import Answer, encode, json_answer
from homing.web.http.callers import Caller
from homing.web.http.calls import Call, query_of

MAX_SIGN_IN_BYTES = 4096
NO_FIELDS: frozenset[str] = frozenset()


class People:
    def __init__(self, homing: Homing, access_check: AccessCheck, intake: Intake) -> None:
        self._homing = homing
        self._access_check = access_check
        self._intake = intake

    async def me(self, call: Call) -> Response:
        """The caller; in proxy mode with the cookie that changes need."""
        query_of(call.scope, NO_FIELDS)
        cookie = self._access_check.browser_cookie(call)
        return _shown(call.let_in, cookie)

    async def sign_in(self, call: Call) -> Response:
        given = await self._intake.read(call, SignInIn, MAX_SIGN_IN_BYTES)
        return _shown(*await self._access_check.sign_in(call, given.name, given.password))

    async def sign_out(self, call: Call) -> Response:
        given = await self._intake.read(call, SignOutIn, MAX_SIGN_IN_BYTES)
        cookie = await self._access_check.sign_out(call, everywhere=given.everywhere)
        return _shown(call.let_in, cookie)

    async def users(self, call: Call) -> Response:
        query_of(call.scope, NO_FIELDS)
        users = await self._homing.users.all()
        return json_answer(
            UsersOut(
                [
                    UserOut(user.name, user.role, user.password is not None, user.created_at_ms)
                    for user in users
                ]
            )
        )

    async def tokens(self, call: Call) -> Response:
        query_of(call.scope, NO_FIELDS)
        used = await self._homing.tokens.last_uses()
        return json_answer(
            TokensOut(
                [
                    TokenOut(token.name, token.role, token.created_at_ms, used.get(token.digest))
                    for token in await self._homing.tokens.all()
                ]
            )
        )


def _shown(caller: Caller, cookie: Header | None) -> Answer:
    me = MeOut(
        name=caller.name,
        role=caller.role,
        kind=caller.kind,
        rights=sorted(RIGHTS[caller.role]),
        sees_personal_data=caller.sees_personal_data,
        csrf_token=caller.csrf_token or None,
    )
    return Answer(encode(me), headers=() if cookie is None else (cookie,))
