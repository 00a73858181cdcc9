"""The files that the guides show are the examples, which other tests run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.frameworks.serving import EXAMPLES

GUIDES = EXAMPLES.parent / "docs" / "guides"
SHOWN = re.compile(r'^```python title="(?P<path>[^"]+)"\n(?P<code>(?:.*\n)*?)```$', re.MULTILINE)


@pytest.mark.parametrize(
    ("guide", "folder"),
    [("django.md", EXAMPLES / "django_bookings"), ("fastapi.md", EXAMPLES), ("flask.md", EXAMPLES)],
)
def test_a_guide_shows_its_example(guide: str, folder: Path) -> None:
    shown = {found["path"]: found["code"] for found in SHOWN.finditer((GUIDES / guide).read_text())}
    assert shown
    assert shown == {path: (folder / path).read_text() for path in shown}
