"""Operating system errors as store errors."""

from __future__ import annotations

import errno
from pathlib import Path

from homing.domain.errors import StoreError, StoreFull, StoreUnavailable

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def store_error(error: OSError, path: Path) -> StoreError:
    """Nothing was stored: there is no room, or the file cannot be used."""
    name = Path(error.filename or path).name
    kind = StoreFull if error.errno in _NO_ROOM else StoreUnavailable
    return kind(f"{name}: {error.strerror}")
