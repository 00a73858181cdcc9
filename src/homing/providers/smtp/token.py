"""Access tokens for OAuth logins: a text, a file that another program renews, or a function."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, TypeAlias

from homing.domain.known_secrets import mask_secret

# A function is asked for the token at every login, so it should keep one that is still valid.
# One that blocks is called in a thread.
TokenSource: TypeAlias = Callable[[], str | Awaitable[str]]
Token: TypeAlias = str | Path | TokenSource

MAX_TOKEN_BYTES = 16 * 1024
_TOKEN = re.compile(r"[\x21-\x7e]+")


class NoToken(Exception):
    """`heard` is `unreachable` if the token may be there later, `missing` if not by itself."""

    def __init__(self, heard: Literal["unreachable", "missing"], detail: str) -> None:
        super().__init__(detail)
        self.heard = heard
        self.detail = detail


async def current_token(token: Token) -> str:
    """The token to log in with now."""
    if isinstance(token, str):
        text = token
    elif isinstance(token, Path):
        text = await asyncio.to_thread(_read, token)
    else:
        text = await _ask(token)
    text = text.strip()
    if not is_token(text):
        raise NoToken("missing", "the token is empty or is not printable ASCII")
    mask_secret(text, expires=True)
    return text


def is_token(text: str) -> bool:
    return len(text) <= MAX_TOKEN_BYTES and _TOKEN.fullmatch(text) is not None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_TOKEN_BYTES + 2).decode("ascii", "replace")
    except OSError as error:
        raise NoToken("missing", f"the token file cannot be read: {error.strerror}") from None


async def _ask(source: TokenSource) -> str:
    try:
        found = await asyncio.to_thread(source)
        text = await found if inspect.isawaitable(found) else found
    except Exception as error:
        said = f"asking for the token raised {type(error).__name__}: {error}"
        raise NoToken("unreachable", said) from error
    if not isinstance(text, str):
        raise NoToken("missing", f"the token is a {type(text).__name__}, not a text")
    return text
