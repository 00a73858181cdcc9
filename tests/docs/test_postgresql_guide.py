"""docs/guides/postgresql.md: its blocks run, in order, on a real server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg

from tests import servers
from tests.docs.blocks import GUIDES, blocks_in

SHOWN = "postgresql://shop@localhost/shop"
LIMIT_S = 60


def test_the_guide_can_be_followed(tmp_path: Path) -> None:
    blocks = [block.code for block in blocks_in(GUIDES / "postgresql.md")]
    program = tmp_path / "guide.py"
    with servers.postgres() as server:
        program.write_text("\n\n".join(blocks).replace(SHOWN, server.url), "utf-8")
        ran = subprocess.run(
            [sys.executable, str(program)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr[-4000:]
        with psycopg.connect(server.url) as database:
            stored = database.execute(
                "select number, key from invoices join homing_deliveries"
                " on key = 'invoice-' || number order by number"
            ).fetchall()
    assert stored == [(7, "invoice-7"), (8, "invoice-8"), (9, "invoice-9")]
