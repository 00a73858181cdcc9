"""Installing a package of its own: into a folder that only the programs under test look at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def install(package: Path, target: Path) -> Path:
    """As `pip install` does, with its metadata and entry points; nothing is fetched."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--no-build-isolation", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--target", str(target), str(package)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target
