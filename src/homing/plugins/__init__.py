"""What a plugin is made of: its value, the parts of its routes, and the service it runs as.

A package registers its `Plugin` in the entry-point group `homing.plugins`. The values that a
plugin handles are in `homing`, `homing.ports`, `homing.domain` and `homing.stores.layout`;
`docs/reference/public-modules.md` lists all public modules.
"""

from homing.engine.intake.admitted import Admitted
from homing.engine.intake.adopting import Foreign, ForeignState, StandingState
from homing.engine.ops.labels import ENGINE_LABELS, Label, LabelTable
from homing.engine.ops.operations import Operations
from homing.engine.ops.verbs import ALL_VERBS, Verb
from homing.engine.process.alerts import failed_since
from homing.engine.queues import queue_name
from homing.engine.route import classify_exception, judge_as_is
from homing.engine.work.function_step import event_id
from homing.engine.work.handler_names import handler_names
from homing.engine.work.handlers import EVENT_ROUTE, Handlers
from homing.engine.work.steps import SendStep
from homing.observers.route_notices import RouteNotices
from homing.plugins.commands import with_service
from homing.plugins.discovery import load_plugin
from homing.plugins.programs import Program, assemble, load_program
from homing.plugins.running import (
    add_foreign,
    now_ms,
    provider_problems,
    store_problem,
    waiting_unserved,
)
from homing.plugins.store import read_view
from homing.plugins.value import (
    Access,
    Check,
    Endpoint,
    HttpRequest,
    HttpResponse,
    NoSettings,
    Notices,
    NoticeWriter,
    Plugin,
    Service,
    Setup,
    Sign,
    Web,
)
from homing.runtime.app import use_as_worker
from homing.runtime.mail_route import EmailComposer
from homing.settings import Seconds, Settings, masked
from homing.settings.own_names import env

__all__ = [
    "ALL_VERBS",
    "ENGINE_LABELS",
    "EVENT_ROUTE",
    "Access",
    "Admitted",
    "Check",
    "EmailComposer",
    "Endpoint",
    "Foreign",
    "ForeignState",
    "Handlers",
    "HttpRequest",
    "HttpResponse",
    "Label",
    "LabelTable",
    "NoSettings",
    "NoticeWriter",
    "Notices",
    "Operations",
    "Plugin",
    "Program",
    "RouteNotices",
    "Seconds",
    "SendStep",
    "Service",
    "Settings",
    "Setup",
    "Sign",
    "StandingState",
    "Verb",
    "Web",
    "add_foreign",
    "assemble",
    "classify_exception",
    "env",
    "event_id",
    "failed_since",
    "handler_names",
    "judge_as_is",
    "load_plugin",
    "load_program",
    "masked",
    "now_ms",
    "provider_problems",
    "queue_name",
    "read_view",
    "store_problem",
    "use_as_worker",
    "waiting_unserved",
    "with_service",
]
