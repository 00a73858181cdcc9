"""What axe-core finds on the page that a visitor looks at."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe

from tests.browser.chromium import Visitor

GRAVE = ("serious", "critical")


def findings(axe: Axe, person: Visitor, options: dict[str, Any]) -> list[str]:
    found: list[dict[str, Any]] = axe.run(person.page, options=options).response["violations"]
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:160]}"
        for each in found
        if each["impact"] in GRAVE
    ]
