"""Groups of options that commands share: each is one value, and one parameter of the command.

A parameter of type `DeliveryFilter` has an option for each condition.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer
from msgspec import Struct

from homing.cli import filters
from homing.engine.ops.delivery_filter import DeliveryFilter

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DeliveryId = Annotated[str, typer.Argument(metavar="ID")]


class OptionGroup(Struct, frozen=True, kw_only=True):
    """Its fields are options, each with a default of None."""


class Place(OptionGroup, frozen=True, kw_only=True):
    """Where a command works. Every command has it."""

    config: Annotated[
        Path | None,
        typer.Option(
            help="The settings file; by default homing.toml, if it exists.", show_default=False
        ),
    ] = None
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="This store instead of the one in the settings, such as sqlite:///outbox.db.",
            show_default=False,
        ),
    ] = None
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE[:NAME]",
            help="The Homing of your own program, with its store, handlers and jobs; without a"
            " NAME the one called `homing`.",
            show_default=False,
        ),
    ] = None

    @property
    def words(self) -> list[str]:
        """The same for another process."""
        given = {"--config": self.config, "--store": self.store, "--app": self.app}
        return [
            word
            for name, value in given.items()
            if value is not None
            for word in (name, str(value))
        ]


class _Group(NamedTuple):
    """The options of one parameter, and what makes its value of theirs."""

    options: Mapping[str, Any]
    value: Callable[[dict[str, Any]], Any]


def _group(kind: Any) -> _Group | None:
    if kind is DeliveryFilter:
        return _Group(filters.options(), filters.filter_of_options)
    if isinstance(kind, type) and issubclass(kind, OptionGroup):
        hints = get_type_hints(kind, include_extras=True)
        return _Group(hints, lambda given: kind(**given))
    return None


def command(function: Callable[..., None]) -> Callable[..., None]:
    """The function as typer takes it: with the options of its groups as parameters."""
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, _Group] = {}
    parameters: list[inspect.Parameter] = []
    for name, each in signature.parameters.items():
        group = _group(each.annotation)
        if group is not None:
            groups[name] = group
        else:
            parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    for group in reversed(groups.values()):
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in group.options.items()
        ]

    def run(**given: Any) -> None:
        values = {
            name: group.value({option: given.pop(option) for option in group.options})
            for name, group in groups.items()
        }
        function(**values, **given)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # typer reads it
    return run
