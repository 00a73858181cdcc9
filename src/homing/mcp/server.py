"""The MCP server: the tools by the names and with the descriptions that agents see."""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, ParamSpec

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from homing.domain.errors import HomingError
from homing.domain.redaction import redact
from homing.engine.ops.caller import CallerOperations
from homing.engine.ops.delivery_filter import FILTERS
from homing.engine.ops.verbs import VERBS
from homing.mcp.tools import MOST_LISTED, NOTICE, DeadLetterTools
from homing.runtime.app import Homing
from homing.web.http.callers import Caller

P = ParamSpec("P")

# Where the HTTP front puts the caller that it has let in. On stdio there is none.
CALLER = "homing.caller"
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)

EventId = Annotated[str, Field(description="The event_id of an event or delivery.", max_length=200)]
Word = Annotated[str | None, Field(max_length=200)]


def mcp_server(homing: Homing, *, allow_replay: bool = False) -> MCPServer:
    tools = DeadLetterTools(homing, allow_replay=allow_replay)
    server = MCPServer(
        "homing",
        title="Homing",
        instructions=f"Dead letters of Homing, and why they failed. {NOTICE}",
        version=importlib.metadata.version("homing"),
        log_level="ERROR",
    )

    def ops_of(ctx: Context) -> CallerOperations:
        """On stdio, a program of this machine's user asks; by HTTP, who was let in."""
        caller = _caller(ctx)
        sees = caller is None or caller.sees_personal_data
        return CallerOperations.of(homing.ops, sees_personal_data=sees)

    async def list_dlq_events(
        limit: Annotated[int, Field(ge=1, le=MOST_LISTED)] = 20,
        cursor: Word = None,
        *,
        ctx: Context,
        **conditions: str | None,
    ) -> dict[str, Any]:
        """The dead letters, newest first: events, mails and jobs that wait for a person."""
        given = {name: text for name, text in conditions.items() if text is not None}
        return await tools.list_events(ops_of(ctx), limit, cursor, given)

    server.tool(annotations=READS)(refusing(with_conditions(list_dlq_events)))

    @server.tool(annotations=READS)
    @refusing
    async def get_dlq_event_detail(event_id: EventId, ctx: Context) -> dict[str, Any]:
        """One event: its payload, attempts, handlers, earlier cycles and what operators did."""
        return await tools.detail(ops_of(ctx), event_id)

    @server.tool(annotations=CHANGES)
    @refusing
    async def replay_dlq_event(
        event_id: EventId,
        replayed_by: Annotated[str, Field(description="Who asks for it; kept in the audit.")],
        reason: Annotated[str, Field(description="Why it will work now; kept in the audit.")],
        ctx: Context,
        generation: Annotated[
            int | None, Field(ge=0, description="Handle it with code of this generation.")
        ] = None,
    ) -> dict[str, Any]:
        """Try one dead letter again. Refused unless the server was started with --allow-replay."""
        caller = _caller(ctx)
        actor = replayed_by
        if caller is not None:
            if not caller.may(VERBS["replay"].right):
                raise ToolError(f"role {caller.role} may not operate")
            actor = caller.signed(replayed_by)
        return await tools.replay(ops_of(ctx), event_id, actor, reason, generation)

    @server.tool(annotations=READS)
    @refusing
    async def why(
        id_or_address: Annotated[str, Field(description="An event_id, or a mail address.")],
        ctx: Context,
    ) -> dict[str, Any]:
        """What happened to a delivery, or to mail for an address, and what comes next."""
        return await tools.why(ops_of(ctx), id_or_address)

    @server.tool(annotations=READS)
    @refusing
    async def stats() -> dict[str, Any]:
        """Deliveries by route and state, paused routes, live workers, and unserved work."""
        return await tools.stats()

    return server


def _caller(ctx: Context) -> Caller | None:
    request: Any = ctx.request_context.request
    if request is None:
        return None
    caller: Caller = request.scope[CALLER]
    return caller


def with_conditions(tool: Callable[P, Awaitable[Any]]) -> Callable[P, Awaitable[Any]]:
    """The tool with an argument for each condition of a filter; dead letters have one state."""
    signature = inspect.signature(tool, eval_str=True)
    given = [
        each
        for each in signature.parameters.values()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    conditions = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[str | None, Field(description=field.about)],
        )
        for field in FILTERS.values()
        if field.name != "state"
    ]
    found: Any = tool
    found.__signature__ = signature.replace(parameters=[*given, *conditions])
    found.__annotations__ = {each.name: each.annotation for each in (*given, *conditions)}
    return tool


def refusing(tool: Callable[P, Awaitable[Any]]) -> Callable[P, Awaitable[Any]]:
    """The agent can read refusals of Homing; it sees no details of other errors."""

    @functools.wraps(tool)
    async def run(*args: P.args, **words: P.kwargs) -> Any:
        try:
            return await tool(*args, **words)
        except HomingError as error:
            raise ToolError(redact(str(error))) from error

    return run
