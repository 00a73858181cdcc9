"""The options of an SMTP URL: how each is read, and what it may be."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from homing.domain.errors import SettingsError
from homing.domain.known_secrets import mask_secret
from homing.providers.smtp.credentials import SECRET_OF
from homing.providers.smtp.token import is_token
from homing.providers.smtp.wire import address_problem, is_host


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 3600:
        raise SettingsError(name, "must be a number of seconds, above 0 and at most 3600")
    return seconds


def _count(highest: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not (value.isascii() and value.isdigit() and 1 <= int(value[:9]) <= highest):
            raise SettingsError(name, f"must be a whole number from 1 to {highest}")
        return int(value)

    return read


def _word(*allowed: str) -> Callable[[str, str], str]:
    def read(name: str, value: str) -> str:
        if value not in allowed:
            raise SettingsError(name, f"must be one of {', '.join(allowed)}")
        return value

    return read


def _switch(name: str, value: str) -> bool:
    return _word("on", "off")(name, value) == "on"


def _path(name: str, value: str) -> str:
    if not value:
        raise SettingsError(name, "must be the path of a PEM file")
    return value


def _token(name: str, value: str) -> str:
    if not is_token(value):
        raise SettingsError(name, "must be printable ASCII without blanks; write + as %2B")
    mask_secret(value)
    return value


def _token_file(name: str, value: str) -> Path:
    if not value:
        raise SettingsError(name, "must be the path of a file with an access token")
    return Path(value)


def _mechanism(name: str, value: str) -> str:
    return _word(*SECRET_OF)(name, value.upper())


def _host_name(name: str, value: str) -> str:
    if not is_host(value):
        raise SettingsError(name, "must be the host name of the URL")
    return value


def _helo(name: str, value: str) -> str:
    if not is_host(value):
        raise SettingsError(name, "must be a host name or an address literal such as [192.0.2.1]")
    return value


def _sender(name: str, value: str) -> str:
    if (problem := address_problem(value)) is not None:
        raise SettingsError(name, problem)
    return value


# By name: the field of the settings (`token_file` is another `token`), and how it is read.
OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "tls": ("tls", _word("starttls", "none", "implicit")),
    "verify": ("verify", _switch),
    "ca_file": ("ca_file", _path),
    "client_cert": ("client_cert", _path),
    "client_key": ("client_key", _path),
    "plaintext_host": ("plaintext_host", _host_name),
    "auth": ("auth", _mechanism),
    "token": ("token", _token),
    "token_file": ("token", _token_file),
    "helo": ("helo", _helo),
    "sender": ("sender", _sender),
    "pool": ("pool_size", _count(256)),
    "messages_per_connection": ("messages_per_connection", _count(1_000_000)),
    "idle_timeout_s": ("idle_timeout_s", _seconds),
    "connect_timeout_s": ("connect_timeout_s", _seconds),
    "command_timeout_s": ("command_timeout_s", _seconds),
    "data_timeout_s": ("data_timeout_s", _seconds),
    "dot_timeout_s": ("dot_timeout_s", _seconds),
}
