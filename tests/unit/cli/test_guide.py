"""The examples of the guide, in their order, beside a real `homing serve`."""

from __future__ import annotations

from pathlib import Path

from tests.docs.console import Service, commands, masked, running_service
from tests.unit.cli.programs import until

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "cli.md"
# Questions are asked again until the worker has done what the text before them tells.
QUESTIONS = tuple(
    f"homing {name}" for name in ("status", "dead", "errors", "why", "health", "watch", "list")
)


def test_each_command_prints_what_the_guide_shows(tmp_path: Path) -> None:
    # However slow the machine: no second attempt comes in between.
    (tmp_path / "homing.toml").write_text("[routes.mail.retry]\nladder = ['1h']\n")
    with running_service(tmp_path) as service:
        for command, written in commands(GUIDE.read_text()):
            expected = masked(written)
            assert answer(service, command, expected) == expected, command


def answer(service: Service, command: str, expected: str) -> str:
    seen: list[str] = []

    def is_there() -> bool:
        seen.append(masked(service.run(command)))
        return seen[-1] == expected or not command.startswith(QUESTIONS)

    until(is_there, what=command)
    return seen[-1]


def test_the_guide_names_every_command_and_filter() -> None:
    from homing.cli.filters import Filter
    from homing.cli.main import app

    text = GUIDE.read_text()
    names = [each.name for each in app.registered_commands if each.name]
    assert {"replay", "list"} <= {*names}
    for name in names:
        assert f"homing {name}" in text, name
    for field in Filter.__struct_fields__:
        assert f"`--{field.replace('_', '-')}`" in text, field
