"""The figures to reach, each with what it is for, as data.

Machines differ, so most are ratios to a peer in the same run. Bounds that a person feels (a start,
a memory footprint, a recovery) are absolute.
"""

from dataclasses import dataclass

from benchmarks.measures import BY_NAME
from benchmarks.registry import OURS


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One promised figure of ours: a bound, or `times` what a peer reached beside us."""

    measure: str
    why: str
    store: str = "sqlite"
    bound: float | None = None
    times: float | None = None
    peer: str = OURS
    peer_store: str | None = None
    peer_measure: str | None = None

    def says(self) -> str:
        sign = "≥" if BY_NAME[self.measure].best == "most" else "≤"
        if self.times is None:
            return f"{sign} {self.bound:,g}"
        on = f" on {self.peer_store}" if self.peer_store else ""
        of = "our own" if self.peer == OURS else f"{self.peer}'s"
        what = f" {self.peer_measure}" if self.peer_measure else ""
        return f"{sign} {self.times:g} x {of}{what}{on}"


TARGETS = (
    Target(
        measure="drain",
        store="memory",
        times=3,
        peer="graphile-worker",
        why="the engine itself is not what limits a store",
    ),
    Target(measure="drain", times=1.2, peer="graphile-worker", why="a file keeps up with a server"),
    Target(
        measure="drain",
        times=12,
        peer="huey",
        peer_store="sqlite",
        why="batches pay against one commit a job on the same disk",
    ),
    Target(
        measure="enqueue_bulk",
        times=1,
        peer="pgqueuer",
        why="an idempotency key on every row costs no more than rows without keys",
    ),
    Target(
        measure="enqueue_concurrent",
        times=1,
        peer="bullmq",
        why="64 callers of a web application share durable writes, for which BullMQ does not wait",
    ),
    Target(
        measure="drain_20k",
        store="postgres",
        times=1.3,
        peer="pgqueuer",
        why="ahead of a queue on the same server, with delivered rows kept",
    ),
    Target(
        measure="drain_100k",
        store="postgres",
        times=1.3,
        peer="pgqueuer",
        why="the same with a long queue",
    ),
    Target(
        measure="drain_100k",
        store="postgres",
        times=1,
        peer="graphile-worker",
        why="not behind the fastest queue on PostgreSQL, which deletes what is done",
    ),
    Target(
        measure="enqueue_concurrent",
        store="postgres",
        times=3,
        peer="pgqueuer",
        why="64 callers share commits and notifications",
    ),
    Target(
        measure="enqueue_concurrent",
        store="postgres",
        times=6,
        peer="pgqueuer",
        why="the same, as the aim",
    ),
    Target(
        measure="enqueue_bulk",
        store="postgres",
        times=0.8,
        peer="pgqueuer",
        why="an idempotency key on every row costs no more than rows without keys",
    ),
    Target(
        measure="latency_p50",
        store="postgres",
        times=1,
        peer="pgqueuer",
        why="a worker on another host starts as quickly as theirs",
    ),
    Target(
        measure="latency_p99",
        store="postgres",
        times=1,
        peer="pgqueuer",
        why="the same, for the slowest one in a hundred",
    ),
    Target(
        measure="second_process",
        store="postgres",
        bound=1.5,
        why="more workers do more, where the server has cores to spare",
    ),
    Target(
        measure="snapshot_loss",
        store="postgres",
        bound=20,
        why="a backup or a report beside it does not stop the queue",
    ),
    Target(
        measure="mail_from_queue",
        times=12,
        peer="postfix",
        peer_measure="mail_end_to_end",
        why="a backlog after an outage is worked off quickly",
    ),
    Target(
        measure="mail_end_to_end",
        times=10,
        peer="postfix",
        why="accepting and delivering together, as a caller sees it",
    ),
    Target(
        measure="notices",
        times=0.5,
        peer_measure="mail_logged",
        why="a delivery log keeps up with what is delivered",
    ),
    Target(
        measure="latency_p50",
        times=2.2,
        peer="huey",
        peer_store="redis",
        why="two durable commits take not much longer than a blocking read that waits for no disk",
    ),
    Target(
        measure="latency_p99",
        times=2.6,
        peer="huey",
        peer_store="redis",
        why="the same, for the slowest one in a hundred",
    ),
    Target(measure="latency_own_process_p50", bound=5, why="a caller's own worker starts at once"),
    Target(
        measure="latency_own_process_p99",
        bound=25,
        why="the same, for the slowest one in a hundred",
    ),
    Target(measure="idle_cpu", bound=0.3, why="a worker with nothing to do costs nothing"),
    Target(measure="idle_cpu", store="jsonl", bound=1, why="the same over a file"),
    Target(measure="reaction", store="jsonl", bound=1, why="a new record is not polled for"),
    Target(measure="append_bulk", store="jsonl", bound=50_000, why="group commit pays"),
    Target(measure="append_concurrent", store="jsonl", bound=5_000, why="callers share syncs"),
    Target(measure="open_million", store="jsonl", bound=10, why="a restart is not an outage"),
    Target(measure="open_memory", store="jsonl", bound=1024, why="payloads stay on the disk"),
    Target(
        measure="graph_share",
        store="jsonl",
        bound=80,
        why="four requests at once are the limit, not what Homing does between them",
    ),
    Target(measure="recovery_first", bound=2, why="a killed worker's work does not stand still"),
    Target(measure="recovery_last", bound=5, why="all of it is under way again, not the first"),
    Target(measure="recovery_rate", bound=70, why="healthy work goes on beside what is resumed"),
    Target(measure="kill_duplicates", bound=64, why="what one kill repeats is bounded"),
    Target(measure="kill_lost", bound=0, why="what was accepted is never lost"),
    Target(measure="cost_growth", bound=1.25, why="old rows do not slow new ones down"),
    Target(measure="worker_rss", bound=120, why="a worker fits beside the application"),
    Target(
        measure="rest_post",
        times=0.25,
        peer_measure="enqueue_concurrent",
        why="HTTP costs at most three times the durable write behind it",
    ),
    Target(measure="rest_p99", bound=50, why="a request that waits for the disk still answers"),
    Target(measure="booking_delay", bound=10, why="a booking does not wait for its mail"),
    Target(measure="serve_ready", bound=2, why="a restart is short"),
    Target(measure="serve_rss", bound=120, why="the service fits on a small machine"),
    Target(measure="import_time", store="", bound=150, why="an application starts quickly"),
    Target(measure="help_time", store="", bound=400, why="the command line answers at once"),
    Target(
        measure="simulator",
        store="memory",
        bound=120,
        why="they are part of every test run",
    ),
)
