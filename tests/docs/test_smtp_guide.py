"""docs/guides/smtp.md says what the code does: every option, default, method and answer."""

import re

import pytest

from homing.providers.smtp import SmtpSettings, parse_url
from homing.providers.smtp.auth import MECHANISMS
from homing.providers.smtp.options import OPTIONS
from homing.providers.smtp.rules import RULES, UNHEARD_OF
from tests.docs.blocks import GUIDES

GUIDE = (GUIDES / "smtp.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    part = GUIDE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_it_names_exactly_the_options_that_there_are() -> None:
    assert [row[0].strip("`") for row in rows("Options")] == list(OPTIONS)


def test_its_defaults_are_those_of_the_code() -> None:
    settings = SmtpSettings(host="mail.example.org", port=587)
    shown = {row[0].strip("`"): row[2] for row in rows("Options")}
    for option, (field, _) in OPTIONS.items():
        default = getattr(settings, field, None)
        if isinstance(default, bool):
            default = "on" if default else "off"
        if default is not None:
            text = f"{default:g}" if isinstance(default, float) else str(default)
            assert shown[option] == f"`{text}`", option
        else:
            assert "`" not in shown[option] or option == "client_key", option


def test_it_names_the_ways_to_log_in_by_preference() -> None:
    text = GUIDE.split("## Logging in")[1].split("```")[0]
    names = [mechanism.name for mechanism in MECHANISMS]
    assert re.findall(rf"\b(?:{'|'.join(names)})\b", text) == names


def test_it_explains_every_answer() -> None:
    explained = {
        word
        for row in rows("How answers are classified")
        for word in re.findall(r"`(\w+)`", row[0])
    }
    assert explained == {rule.error_class for rule in (*RULES, UNHEARD_OF)}


@pytest.mark.parametrize("url", re.findall(r"smtps?://[^\s\"`]+", GUIDE))
def test_its_urls_are_good(url: str) -> None:
    if url.endswith("://"):
        return  # the scheme alone
    assert isinstance(parse_url(url), SmtpSettings)
