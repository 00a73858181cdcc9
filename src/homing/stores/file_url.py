"""The file that the URL of a store names."""

from __future__ import annotations

from pathlib import Path

from homing.domain.errors import SettingsError


def path_of(url: str, example: str) -> Path:
    """`sqlite:///relative.db` and `sqlite:////absolute.db`, as elsewhere in Python.

    SettingsError if it is neither; `example` is the name of a file that the message may suggest.
    """
    scheme, _, rest = url.strip().partition(":")
    if not rest.startswith("///") or len(rest) == len("///"):
        name = rest.lstrip("/") or example
        raise SettingsError(
            "store",
            f"a file has three slashes: {scheme}:///{name} in this folder,"
            f" {scheme}:////srv/{name} anywhere",
        )
    return Path(rest[len("///") :])
