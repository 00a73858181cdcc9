"""`workers`: processes with a heartbeat, and the queues they serve."""

from __future__ import annotations

import typer

from homing.cli.options import AsJson, Place, command
from homing.cli.session import print_json, with_homing
from homing.cli.terminal import Colored, colored, table
from homing.engine.ops.inspecting import WorkerView, list_workers
from homing.engine.process.unserved import unserved_queues, unserved_text
from homing.runtime.app import Homing
from homing.settings import span

HEAD = ("state", "host", "process", "last heartbeat", "serves")


def register(app: typer.Typer) -> None:
    app.command()(command(workers))


def workers(place: Place, as_json: AsJson = False) -> None:
    """Processes with a heartbeat, and the queues they serve.

    Also how much work waits in queues that none of them serves.
    """

    async def act(homing: Homing) -> tuple[list[WorkerView], dict[str, int], int]:
        engine = homing.engine
        found = await list_workers(engine)
        return found, await unserved_queues(homing.store, engine.liveness), engine.clock.now_ms()

    found, unserved, now_ms = with_homing(place, act)
    if as_json:
        print_json({"items": found, "unserved": unserved})
        return
    if found:
        typer.echo(table(HEAD, [_row(each, now_ms) for each in found]))
    else:
        typer.echo(colored("no worker is running", "yellow"))
    for queue, waiting in unserved.items():
        typer.echo(colored(unserved_text(queue, waiting), "red"))


def _row(worker: WorkerView, now_ms: int) -> tuple[object, ...]:
    return (
        Colored("alive", "green") if worker.alive else Colored("silent", "red"),
        worker.host,
        "" if worker.pid is None else worker.pid,
        f"{span(round((now_ms - worker.beat_at_ms) / 1000))} ago",
        ", ".join(worker.queues) or "only accepts",
    )
