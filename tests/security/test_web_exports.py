"""What a spreadsheet makes of an export: nothing in it may become a formula."""

from __future__ import annotations

import csv
import io

import pytest

from tests.unit.web.conftest import OPEN, running

FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@pytest.mark.parametrize("separator", [",", ";", "|", "\t"])
async def test_no_cell_begins_like_a_formula_whatever_separates_cells(separator: str) -> None:
    """Where commas are decimal points, spreadsheets separate cells by semicolons."""
    async with running(OPEN) as api:
        for number, begin in enumerate(FORMULAS):
            source = f'{begin}cmd();{begin}1+2| {begin}3,{begin}4"'
            accepted = await api.post(f"k-{number}", source=source)
            assert accepted.status_code == 202, accepted.text
        text = (await api.client.get("/api/v1/export")).text
        rows = [*csv.reader(io.StringIO(text))]
        assert len(rows) == len(FORMULAS) + 1
        for row in csv.reader(io.StringIO(text), delimiter=separator):
            cells = [cell.strip() for cell in row]
            assert not [cell for cell in cells if cell.startswith(FORMULAS)]


async def test_harmless_cells_stay_as_they_are() -> None:
    async with running(OPEN) as api:
        for number, source in enumerate(("a-b", "a=b", "a;b", "x@y", "1+1")):
            await api.post(f"k-{number}", source=source)
        rows = csv.DictReader(io.StringIO((await api.client.get("/api/v1/export")).text))
        assert {row["source"] for row in rows} == {"a-b", "a=b", "a;b", "x@y", "1+1"}
