"""docs/guides/mail.md and templates.md name what the code knows, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from homing import Attachment, Email, Invitation
from homing.content.headers import ALLOWED
from homing.content.templates.environment import ATTRIBUTES
from homing.content.templates.filters import ALLOWED_FILTERS
from homing.content.templates.language import MAX_LOOPS
from homing.content.templates.layouts import MAX_FILES
from homing.settings import load

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
MAIL = (GUIDES / "mail.md").read_text("utf-8")
TEMPLATES = (GUIDES / "templates.md").read_text("utf-8")


def words_in_first_column(section: str) -> set[str]:
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row.split(" | ")[0])}


def test_every_field_of_a_message_is_explained() -> None:
    fields = MAIL.partition("| field |")[2].partition("\n\n")[0]
    assert words_in_first_column(fields) - {"from"} == set(Email.__struct_fields__)
    for kind in (Attachment, Invitation):
        for name in kind.__struct_fields__:
            assert f"`{name}`" in fields


def test_every_header_that_may_be_set_is_listed() -> None:
    headers = MAIL.partition("| header |")[2].partition("\n\n")[0]
    named = {name.lower() for name in words_in_first_column(headers)}
    assert named - {"x-…"} == set(ALLOWED)


def test_every_filter_and_method_is_listed() -> None:
    language = TEMPLATES.partition("## The language")[2].partition("\n## ")[0]
    filters = language.partition("the filters")[2].partition(";")[0]
    known = {name for name in ALLOWED_FILTERS if not name.startswith("_")}
    assert set(re.findall(r"`(\w+)`", filters)) == known
    texts, _, objects = language.partition("the methods")[2].partition("texts, and")
    assert set(re.findall(r"`(\w+)`", texts)) == ATTRIBUTES[str]
    assert set(re.findall(r"`(\w+)`", objects.partition("of objects")[0])) == ATTRIBUTES[dict]
    assert f"At most {MAX_LOOPS} loops" in language
    assert f"{MAX_FILES} files" in TEMPLATES


@pytest.mark.parametrize("block", re.findall(r"```toml\n(.*?)```", MAIL, re.DOTALL))
def test_the_settings_shown_are_settings(block: str, tmp_path: Path) -> None:
    file = tmp_path / "homing.toml"
    file.write_text(block)
    assert load(file, {}).settings.allowed_senders
