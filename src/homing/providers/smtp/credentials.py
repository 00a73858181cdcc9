"""As whom to log in, and with what."""

from __future__ import annotations

import re

from msgspec import Struct

from homing.domain.errors import SettingsError
from homing.domain.known_secrets import mask_secret
from homing.providers.smtp.auth import MECHANISMS, Secret
from homing.providers.smtp.token import Token

# What each way to log in needs.
SECRET_OF: dict[str, Secret] = {mechanism.name: mechanism.takes for mechanism in MECHANISMS}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Credentials(Struct, frozen=True):
    """With a password, a token, or (if a client certificate says who it is) neither.

    Never shown, not even in a traceback.
    """

    user: str
    password: str = ""
    token: Token | None = None

    @property
    def takes(self) -> Secret:
        if self.token is not None:
            return "token"
        return "password" if self.password else "certificate"

    def __repr__(self) -> str:
        return "Credentials([hidden])"


def credentials_of(
    user: str, password: str, token: Token | None, auth: str | None
) -> Credentials | None:
    """None where no login is made. `auth` is the one way to log in that is allowed, if named."""
    if _CONTROL.search(user + password):
        raise SettingsError("provider", "user and password cannot hold control characters")
    if token is not None and not user:
        raise SettingsError("token", "needs a user in the URL: smtp://user@host")
    if token is not None and password:
        raise SettingsError("token", "is given beside a password; give one of them")
    made = Credentials(user, password, token)
    if auth is not None and made.takes != SECRET_OF[auth]:
        raise SettingsError("auth", f"{auth} needs a {SECRET_OF[auth]}, and no other secret")
    if auth is None and (made.takes == "certificate" or not user):
        return None
    mask_secret(password)
    return made
