"""The reference is made from the tree: every setting has its line, its default and its meaning."""

import tomllib

from homing.plugins.programs import defaults
from homing.settings import load
from homing.settings.leaves import leaves
from homing.settings.reference import reference


def test_every_setting_has_a_line_that_says_what_it_takes_and_does() -> None:
    page = reference(defaults())
    rows = {row.split(" | ")[0]: row.split(" | ") for row in page.splitlines() if "| `" in row}

    for leaf in leaves():
        name, variable, takes, default, about = rows.pop(f"| `{leaf.name}`")
        assert variable == f"`{leaf.variable}`"
        assert takes
        assert default
        assert about.rstrip(" |").endswith("."), name
    assert rows == {}


def test_the_example_of_the_page_can_be_loaded(tmp_path: object) -> None:
    from pathlib import Path

    page = reference(defaults())
    example = page.split("```toml\n")[1].split("```")[0]
    file = Path(str(tmp_path)) / "homing.toml"
    file.write_text(example)

    assert tomllib.loads(example)["routes"]["mail"]["max_attempts"] == 4
    assert load(file, {}).settings.sender == "Shop <shop@example.org>"


def test_the_defaults_of_routes_are_those_in_force_on_mail() -> None:
    page = reference(defaults())

    assert "| `1m, 5m, 30m, 2h, 6h, 12h` |" in page
    assert "| `routes.<name>.retention.delivered` |" in page
    assert "| duration or `forever` | `30d` |" in page
