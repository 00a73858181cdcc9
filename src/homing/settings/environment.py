"""Settings of the environment: `HOMING_SERVER__PORT`, and `*_FILE` for what a file holds."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from homing.domain.errors import SettingsError
from homing.settings.leaves import leaves

PREFIX = "HOMING_"
FILE_SUFFIX = "_FILE"
MAX_FILE_BYTES = 1_000_000
# Names the settings file and is not a setting itself.
CONFIG_VARIABLE = "HOMING_CONFIG"


class Given(Struct, frozen=True):
    """One setting of the environment, not yet checked."""

    name: tuple[str, ...]
    value: Any
    origin: str


def from_environ(environ: Mapping[str, str]) -> list[Given]:
    kinds = {leaf.name: leaf.kind for leaf in leaves()}
    found: list[Given] = []
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable == CONFIG_VARIABLE:
            continue
        bare, text = variable.removeprefix(PREFIX), environ[variable]
        # `log.alert_file` is a setting; `HOMING_PROVIDER_FILE` is the file of one.
        if bare.endswith(FILE_SUFFIX) and _dotted(bare) not in kinds:
            bare = bare.removesuffix(FILE_SUFFIX)
            if PREFIX + bare in environ:
                raise SettingsError(variable, f"is given beside {PREFIX}{bare}; give one of them")
            text = secret_file(variable, text)
        if not text:
            raise SettingsError(variable, "is empty: give it a value, or remove it")
        name = tuple(bare.lower().split("__"))
        if not all(name):
            raise SettingsError(variable, "has an empty part between its underscores")
        value = text if kinds.get(_dotted(bare)) is str else plain_value(variable, text)
        found.append(Given(name, value, variable))
    return found


def _dotted(bare: str) -> str:
    """`SERVER__PORT` as `server.port`."""
    return bare.lower().replace("__", ".")


def secret_file(variable: str, path: str) -> str:
    try:
        return read_text(Path(path)).rstrip("\r\n")
    except OSError as error:
        raise SettingsError(variable, f"its file cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SettingsError(variable, "its file is not UTF-8 text") from None


def plain_value(variable: str, text: str) -> Any:
    """Numbers and words stay text and are read later; lists and tables are written as in TOML."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(variable, f"is not a TOML list or table: {error}") from error


def read_text(path: Path) -> str:
    """Bounded: a setting that names a device or a wrong file must not fill the memory."""
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise SettingsError(str(path), f"is larger than {MAX_FILE_BYTES:,} bytes")
    return data.decode("utf-8")
