"""docs/guides/writing-a-store.md: the store that it builds keeps the contract."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "writing-a-store.md"


def test_the_blocks_of_the_guide_make_a_store_that_keeps_the_contract(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    module = tmp_path / "test_dict_store.py"
    module.write_text("\n\n".join(blocks), "utf-8")

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(module)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout[-4000:]
    assert " passed" in ran.stdout
