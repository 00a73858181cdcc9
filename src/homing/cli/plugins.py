"""`homing NAME …` for every installed plugin: its programs, readers, verbs and own commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperGroup

from homing.cli import session
from homing.cli.groups import write_groups

if TYPE_CHECKING:
    from homing.plugins.value import Plugin
    from homing.settings.own_names import OwnName

# The default service: its commands need no name.
UNNAMED = "default"
GROUP: Final = "homing.plugins"

Register = Callable[[typer.Typer], None]


class Commands(TyperGroup):
    """The commands of `homing`; a plugin is loaded when one of its commands is asked for."""

    standard: Register

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        from homing.runtime.entry_points import offered

        if cmd_name == UNNAMED or cmd_name not in offered(GROUP):
            return None
        from homing.plugins.discovery import load_plugin

        return group_of(load_plugin(cmd_name), type(self).standard)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Installed plugins too; none of them is loaded for this."""
        write_groups(self, ctx, formatter)
        from homing.runtime.entry_points import offered, summary_of

        rows = sorted(
            (name, summary_of(entry)) for name, entry in offered(GROUP).items() if name != UNNAMED
        )
        if rows:
            with formatter.section("Plugins"):
                formatter.write_dl(rows)


class PluginCommands(TyperGroup):
    """The commands of one plugin, and below them the settings that it alone has."""

    plugin: Plugin[Any]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        write_groups(self, ctx, formatter)
        from homing.settings.masking import shown
        from homing.settings.own_names import own_names

        rows = [
            (variable, _about(name, shown(variable, name.default)))
            for variable, name in own_names(self.plugin.settings).items()
        ]
        rows.append(("HOMING_…", "General settings: `homing config show` lists them."))
        with formatter.section("Settings, from the environment"):
            formatter.write_dl(rows)


def _about(name: OwnName, default: str) -> str:
    if name.required:
        return f"{name.about} Required."
    return name.about if name.default is None else f"{name.about} Default: {default}."


def group_of(plugin: Plugin[Any], standard: Register) -> Any:
    """Its own commands replace the standard ones of the same name."""
    app = typer.Typer(
        cls=type("PluginCommands", (PluginCommands,), {"plugin": plugin}),
        name=plugin.name,
        help=plugin.about,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )

    @app.callback()
    def choose() -> None:
        session.chosen.set(plugin)

    choose.__doc__ = plugin.about
    standard(app)
    for name, command in plugin.commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return typer.main.get_command(app)
