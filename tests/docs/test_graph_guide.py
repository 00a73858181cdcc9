"""docs/guides/graph.md says what the code does: every setting, default and answer."""

import re

from homing.providers.graph import answers, settings
from tests.docs.blocks import GUIDES

GUIDE = (GUIDES / "graph.md").read_text()
# Classes that are not the meaning of a status.
OTHERS = {"answer_lost", "unreachable", "token_revoked", "token_unavailable", "draft_missing"}


def test_it_explains_every_class_of_failure() -> None:
    part = GUIDE.split("## How answers are classified")[1]
    explained = {
        word
        for line in part.splitlines()
        if line.startswith("| `")
        for word in re.findall(r"`(\w+)`", line.split(" | ")[0])
    }
    meanings = {answers.meaning_of(status).error_class for status in range(200, 600)}

    assert explained == meanings | OTHERS | {"recipients_differ"}


def test_its_defaults_are_those_of_the_code() -> None:
    shown = dict(re.findall(r"^\| `(GRAPH_\w+)` ?\*? \| `([^`]+)`", GUIDE, re.MULTILINE))

    assert shown == {
        "GRAPH_ENV_FILE": settings.ENV_FILE,
        "GRAPH_API_URL": settings.API_URL,
        "GRAPH_LOGIN_URL": settings.LOGIN_URL,
    }
