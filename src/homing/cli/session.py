"""What every command shares: its plugin and settings, and a Homing for reading and repairing."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from homing.cli.options import Place
from homing.domain.delivery import Delivery
from homing.domain.errors import HomingError, SettingsError, StoreCorrupt
from homing.engine.ops.caller import CallerOperations
from homing.engine.ops.views import DeliveryView
from homing.ports import InFile, Migrated, Store
from homing.runtime.app import Homing

if TYPE_CHECKING:
    from homing.plugins.programs import Program
    from homing.plugins.value import Plugin

T = TypeVar("T")

# Set by `homing NAME …`; without a name, the default mail service.
chosen: ContextVar[Plugin[Any] | None] = ContextVar("chosen", default=None)


class WrongUse(HomingError):
    """The command was called wrongly: exit code 2."""


def program(place: Place, *, reading: bool = False, generation: int = 0) -> Program:
    """The chosen plugin with its settings; a wrong one is named."""
    if place.app is not None:
        raise typer.BadParameter("--app: this command works with what is set, not an application")
    from homing.plugins.default import PLUGIN
    from homing.plugins.programs import load_program
    from homing.runtime.urls import store_from_url

    if place.store is not None:
        try:
            store_from_url(place.store)
        except SettingsError as error:
            raise WrongUse(f"--store: {error.problem}") from None
    return load_program(
        chosen.get() or PLUGIN,
        place.config,
        store=place.store,
        reading=reading,
        generation=generation,
    )


def homing_at(place: Place, *, reading: bool = True) -> Homing:
    """A Homing without a worker. Nothing is opened yet."""
    if place.app is not None:
        return app_of(place, place.app).use_without_worker()
    from homing.plugins.programs import assemble

    return assemble(program(place, reading=reading), worker=False)


def app_of(place: Place, name: str) -> Homing:
    """The Homing of a library user's own program, which has a store of its own."""
    from homing.cli.user_app import load_app
    from homing.plugins.store import add_files

    plugin = chosen.get()
    if plugin is not None and plugin.work_for_app is None:
        raise typer.BadParameter(f"--app is not for {plugin.name}: its code is its own")
    if place.store is not None:
        raise typer.BadParameter("give either --store or --app: an application has its own store")
    homing = load_app(name)
    if plugin is not None:
        add_files(homing.store, homing.store_scheme, plugin)
    return homing


def with_homing(place: Place, act: Callable[[Homing], Awaitable[T]], *, creates: bool = False) -> T:
    """Open the store without a worker, act, close. Only a command that `creates` makes a store."""
    homing = homing_at(place)

    async def run() -> T:
        if creates:
            demand_folder(homing.store)
        else:
            await demand_store(homing, place)
        async with homing:
            try:
                return await act(homing)
            except StoreCorrupt as error:
                homing.engine.health.met(error)
                await homing.engine.health.tell()  # so that the processes that run know it too
                raise

    return asyncio.run(run())


def demand_folder(store: Store) -> None:
    """A store that is a file is created only in a folder that is there."""
    if isinstance(store, InFile) and not store.path.parent.is_dir():
        folder = store.path.parent.absolute()
        raise SettingsError("store", f"there is no folder {folder}: make it, or name another store")


async def demand_store(homing: Homing, place: Place) -> None:
    if place.app is None and not isinstance(homing.store, Migrated | InFile):
        raise WrongUse("the store `memory:` exists only in its own process; name another one")
    await demand_schema(homing.store)


async def demand_schema(store: Store) -> None:
    """Refuse to open a store only to read it, or to work on it, before its schema was made."""
    from homing.plugins.store import why_missing

    plugin = chosen.get()
    problem = await why_missing(
        store, "homing migrate" if plugin is None else f"homing {plugin.name} migrate"
    )
    if problem is not None:
        raise WrongUse(problem)


def ops_of(homing: Homing) -> CallerOperations:
    """The operations of the user of this terminal, who can read the store."""
    return CallerOperations.of(homing.ops, sees_personal_data=True)


async def views_of(homing: Homing, deliveries: Sequence[Delivery]) -> list[DeliveryView]:
    """Deliveries as they are shown everywhere: the status is the route's own word."""
    return [*await ops_of(homing).views(deliveries)]


async def view_of(homing: Homing, delivery: Delivery) -> DeliveryView:
    [view] = await views_of(homing, [delivery])
    return view


def operator() -> str:
    """Who is at this terminal, for the audit."""
    return os.environ.get("SUDO_USER") or getpass.getuser()


def print_raw(text: str) -> None:
    """For programs: UTF-8 whatever the terminal uses."""
    sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()


def print_json(value: Any, *, indent: int = 2) -> None:
    """For programs: UTF-8 whatever the terminal uses, with control characters escaped."""
    import msgspec

    from homing.cli.terminal import escaped_json

    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=indent).decode()
    sys.stdout.buffer.write(escaped_json(text).encode() + b"\n")
    sys.stdout.flush()
