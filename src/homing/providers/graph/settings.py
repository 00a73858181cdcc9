"""The settings of the provider: `GRAPH_*` of the environment, or of the `.env` file."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from homing.domain.errors import SettingsError
from homing.domain.known_secrets import mask_secret
from homing.domain.loopback import is_loopback
from homing.providers.graph.env_file import EnvFile

API_URL = "https://graph.microsoft.com/v1.0"
LOGIN_URL = "https://login.microsoftonline.com"
ENV_FILE = ".env"
REFRESH_TOKEN = "GRAPH_REFRESH_TOKEN"  # noqa: S105 - the name of a setting

_NAME = re.compile(r"[\w.-]{1,128}", re.ASCII)
_ADDRESS = re.compile(r"[^\s@/?#]{1,64}@[^\s@/?#]{1,255}")


class GraphSettings(Struct, frozen=True, kw_only=True):
    """`env_file` holds the refresh token, which is read from there before each use."""

    tenant_id: str
    client_id: str
    sender: str
    env_file: Path
    client_secret: str = ""
    api_url: str = API_URL
    login_url: str = LOGIN_URL

    def __repr__(self) -> str:
        return f"GraphSettings(sender={self.sender!r}, env_file={str(self.env_file)!r})"

    @property
    def stays_local(self) -> bool:
        return all(is_loopback(urlsplit(url).hostname or "") for url in self._urls)

    @property
    def _urls(self) -> tuple[str, str]:
        return self.api_url, self.login_url


def settings_from(environ: Mapping[str, str], *, env_file: str = ENV_FILE) -> GraphSettings:
    """Raises SettingsError that names the variable. `env_file` is the default of GRAPH_ENV_FILE.

    The environment is stronger than the file, except for the refresh token: that is renewed in
    the file, so a copy in the environment would soon be an old one.
    """
    path = Path(environ.get("GRAPH_ENV_FILE") or env_file)
    in_file = _values_of(path)
    given = {**in_file, **{name: value for name, value in environ.items() if value}}
    if not in_file.get(REFRESH_TOKEN):
        raise SettingsError(REFRESH_TOKEN, f"is missing in {path}, the file of GRAPH_ENV_FILE")
    mask_secret(secret := given.get("GRAPH_CLIENT_SECRET", ""))
    return GraphSettings(
        tenant_id=_required(given, "GRAPH_TENANT_ID", _NAME, "a tenant's id or domain"),
        client_id=_required(given, "GRAPH_CLIENT_ID", _NAME, "an application's id"),
        sender=_required(given, "GRAPH_SENDER", _ADDRESS, "the address of the mailbox"),
        env_file=path.absolute(),
        client_secret=secret,
        api_url=_url(given, "GRAPH_API_URL", API_URL),
        login_url=_url(given, "GRAPH_LOGIN_URL", LOGIN_URL),
    )


def _values_of(path: Path) -> dict[str, str]:
    try:
        _check_place(path)
        return EnvFile(path).values()
    except OSError as error:
        raise SettingsError("GRAPH_ENV_FILE", f"{path}: {error.strerror}") from None


def _check_place(path: Path) -> None:
    """Renewing the token replaces the file: a link would be replaced by a file of its own."""
    if path.is_symlink():
        raise SettingsError("GRAPH_ENV_FILE", f"{path} is a symbolic link; name the file itself")
    folder = path.absolute().parent.stat().st_mode
    if folder & stat.S_IWOTH and not folder & stat.S_ISVTX:
        raise SettingsError("GRAPH_ENV_FILE", f"{path} is in a folder that every user can write to")


def _required(given: Mapping[str, str], name: str, form: re.Pattern[str], what: str) -> str:
    value = given.get(name, "").strip()
    if not value:
        raise SettingsError(name, f"is missing: it must be {what}")
    if form.fullmatch(value) is None:
        raise SettingsError(name, f"must be {what}")
    return value


def _url(given: Mapping[str, str], name: str, default: str) -> str:
    value = (given.get(name) or default).rstrip("/")
    parts = urlsplit(value)
    local = is_loopback(parts.hostname or "")
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise SettingsError(name, "must be an https:// URL; http:// is for this machine only")
    return value
