"""Who takes part: each contestant is one module, run in a process of its own.

A new measurement is a new line here (and in `measures` when its name is new). The module reads its
`Plan` from the environment and answers with `report`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

QUEUE = (
    "enqueue_single",
    "enqueue_concurrent",
    "enqueue_bulk",
    "drain",
    "worker_rss",
    "latency_p50",
    "latency_p99",
)
MAIL = ("mail_accept", "mail_end_to_end")
FULL_QUEUE = ("drain_20k", "drain_100k")
OURS = "homing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One system on one store. `needs` names the servers the harness starts for it.

    With `once` a single round does: it is long, or repeats its work itself.
    """

    name: str
    store: str
    module: str
    measures: tuple[str, ...] = QUEUE
    needs: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    in_quick: bool = True
    limit_s: float = 240.0

    @property
    def title(self) -> str:
        return f"{self.name} {self.module.rpartition('.')[2]} {self.store}".strip()

    @property
    def is_peer(self) -> bool:
        return self.module.startswith("benchmarks.peers.")


CONTESTANTS = (
    Contestant(
        name="machine",
        store="",
        module="benchmarks.ours.machine",
        measures=("loops", "fsyncs"),
    ),
    Contestant(
        name="bare-sqlite3",
        store="sqlite",
        module="benchmarks.ours.bare_sqlite",
        measures=("enqueue_concurrent", "latency_p50", "latency_p99"),
    ),
    Contestant(
        name=OURS,
        store="sqlite",
        module="benchmarks.ours.sqlite_queue",
    ),
    Contestant(
        name=OURS,
        store="postgres",
        module="benchmarks.ours.postgres_queue",
        needs=("postgres",),
    ),
    Contestant(
        name=OURS,
        store="memory",
        module="benchmarks.ours.memory_queue",
        measures=("enqueue_concurrent", "enqueue_bulk", "drain"),
    ),
    Contestant(
        name=OURS,
        store="sqlite",
        module="benchmarks.ours.own_process",
        measures=("latency_own_process_p50", "latency_own_process_p99"),
    ),
    Contestant(
        name=OURS,
        store="",
        module="benchmarks.ours.startup",
        measures=("import_time", "help_time"),
        once=True,
    ),
    Contestant(
        name=OURS,
        store="memory",
        module="benchmarks.ours.simulator",
        measures=("simulator",),
        once=True,
        limit_s=600.0,
    ),
    Contestant(
        name=OURS,
        store="sqlite",
        module="benchmarks.ours.scale",
        measures=("cost_small", "cost_large", "cost_growth"),
        once=True,
        limit_s=900.0,
    ),
    Contestant(
        name=OURS,
        store="sqlite",
        module="benchmarks.ours.kills",
        measures=(
            "kill_duplicates",
            "kill_lost",
            "recovery_first",
            "recovery_last",
            "recovery_rate",
        ),
        once=True,
        in_quick=False,
        limit_s=600.0,
    ),
    Contestant(
        name=OURS,
        store="sqlite",
        module="benchmarks.ours.idle",
        measures=("idle_cpu",),
        once=True,
    ),
    Contestant(
        name=OURS,
        store="jsonl",
        module="benchmarks.ours.jsonl",
        measures=(
            "append_concurrent",
            "append_bulk",
            "open_million",
            "open_memory",
            "idle_cpu",
            "reaction",
        ),
        once=True,
        limit_s=600.0,
    ),
    Contestant(
        name=OURS,
        store="jsonl",
        module="benchmarks.ours.graph",
        measures=("graph_share",),
        once=True,
    ),
    Contestant(
        name=OURS,
        store="sqlite",
        module="benchmarks.ours.mail",
        measures=(*MAIL, "mail_from_queue"),
        needs=("smtp",),
    ),
    Contestant(
        name=OURS,
        store="sqlite",
        module="benchmarks.ours.notices",
        measures=("mail_logged", "notices"),
    ),
    Contestant(
        name=OURS,
        store="sqlite",
        module="benchmarks.ours.rest",
        measures=("rest_post", "rest_p99", "serve_ready", "serve_rss"),
        once=True,
    ),
    Contestant(
        name=OURS,
        store="sqlite",
        module="benchmarks.ours.bookings",
        measures=("booking_delay",),
        once=True,
    ),
    Contestant(
        name="huey",
        store="sqlite",
        module="benchmarks.peers.huey_peer",
        options={"store": "sqlite"},
    ),
    Contestant(
        name="pgqueuer",
        store="postgres",
        module="benchmarks.peers.pgqueuer_peer",
        needs=("postgres",),
    ),
    Contestant(
        name="procrastinate",
        store="postgres",
        module="benchmarks.peers.procrastinate_peer",
        needs=("postgres",),
    ),
    Contestant(
        name="graphile-worker",
        store="postgres",
        module="benchmarks.peers.node_peers",
        options={"peer": "graphile-worker"},
        needs=("postgres",),
    ),
    Contestant(
        name="bullmq",
        store="redis",
        module="benchmarks.peers.node_peers",
        options={"peer": "bullmq"},
        needs=("redis",),
    ),
    Contestant(
        name="dramatiq",
        store="redis",
        module="benchmarks.peers.dramatiq_peer",
        needs=("redis",),
    ),
    Contestant(
        name="celery",
        store="redis",
        module="benchmarks.peers.celery_peer",
        needs=("redis",),
    ),
    Contestant(
        name="huey",
        store="redis",
        module="benchmarks.peers.huey_peer",
        options={"store": "redis"},
        needs=("redis",),
    ),
    *(
        Contestant(
            name=name,
            store="postgres",
            module=module,
            options=options,
            measures=measures,
            needs=("postgres",),
            once=once,
            in_quick=False,
            limit_s=600.0,
        )
        for measures, once in ((FULL_QUEUE, False), (("snapshot_loss",), True))
        for name, module, options in (
            (OURS, "benchmarks.ours.postgres_queue", {}),
            ("pgqueuer", "benchmarks.peers.pgqueuer_peer", {}),
            ("graphile-worker", "benchmarks.peers.node_peers", {"peer": "graphile-worker"}),
        )
    ),
    Contestant(
        name=OURS,
        store="postgres",
        module="benchmarks.ours.second_process",
        measures=("second_process",),
        needs=("postgres",),
        once=True,
        in_quick=False,
    ),
    Contestant(
        name="postfix",
        store="files",
        module="benchmarks.peers.postfix_peer",
        measures=MAIL,
        needs=("smtp", "postfix"),
    ),
    Contestant(
        name="django-post_office",
        store="postgres",
        module="benchmarks.peers.post_office_peer",
        measures=MAIL,
        needs=("smtp", "postgres"),
    ),
)
