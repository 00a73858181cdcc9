"""The token endpoint: every good refresh gives a new access token and a new refresh token."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs

from homing_systems.mock_graph.script import Answer
from homing_systems.mock_graph.state import State

# How the real endpoint words the errors that people meet most.
_ERRORS = {
    400: ("invalid_grant", "AADSTS700082: the refresh token has expired or is revoked"),
    401: ("invalid_client", "AADSTS7000215: the client is not known or its secret is wrong"),
    429: ("temporarily_unavailable", "AADSTS90055: too many requests"),
}


class TokenEndpoint:
    """Any refresh token is taken at first, so that a fake needs no setting up."""

    def __init__(self, state: State, *, scope: str, life_s: int, revoke_used: bool) -> None:
        self._state = state
        self._scope = scope
        self._life_s = life_s
        self._revoke_used = revoke_used

    def answer(self, body: bytes, scripted: Answer) -> tuple[int, dict[str, Any]]:
        form = {
            name: values[-1] for name, values in parse_qs(body.decode(errors="replace")).items()
        }
        known = self._state.known
        if scripted.revokes:
            known.is_revoked = True
            self._state.save()
        if known.is_revoked:
            return _error(400)
        if scripted.status != 200:
            return _error(scripted.status)
        token = form.get("refresh_token", "")
        if form.get("grant_type") != "refresh_token" or not token or not form.get("client_id"):
            return 400, {"error": "invalid_request", "error_description": "AADSTS900144: a field"}
        if token in known.used:
            return _error(400)
        return 200, self._issue(token)

    def is_good(self, access_token: str) -> bool:
        return self._state.known.access_tokens.get(access_token, 0.0) > time.time()

    def _issue(self, spent: str) -> dict[str, Any]:
        known = self._state.known
        access, refresh = self._state.new_name("access"), self._state.new_name("refresh")
        known.access_tokens[access] = time.time() + self._life_s
        known.refresh_tokens.append(refresh)
        if self._revoke_used:
            known.used.append(spent)
        self._state.save()
        return {
            "token_type": "Bearer",
            "scope": self._scope,
            "expires_in": self._life_s,
            "access_token": access,
            "refresh_token": refresh,
        }


def _error(status: int) -> tuple[int, dict[str, Any]]:
    error, text = _ERRORS.get(status, ("server_error", "AADSTS90033: a transient error"))
    return status, {"error": error, "error_description": text, "error_codes": []}
