"""What is measured: names, titles and units, as data."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a contestant. `best` says which way is better."""

    name: str
    title: str
    unit: str
    best: Literal["most", "least"] = "most"


MEASURES = (
    Measure("loops", "the machine: a bare Python loop", "million/s"),
    Measure("fsyncs", "the machine: append 1 KB and fdatasync", "per s"),
    Measure("enqueue_single", "enqueue, one caller", "deliveries/s"),
    Measure("enqueue_concurrent", "enqueue, 64 concurrent callers", "deliveries/s"),
    Measure("enqueue_bulk", "enqueue, bulk call", "deliveries/s"),
    Measure("drain", "drain of no-op deliveries", "deliveries/s"),
    Measure("drain_20k", "drain from 20,000 queued", "deliveries/s"),
    Measure("drain_100k", "drain from 100,000 queued", "deliveries/s"),
    Measure("second_process", "drain by two worker processes against one", "times"),
    Measure(
        "snapshot_loss", "throughput lost at the end of a snapshot held for 60 s", "%", "least"
    ),
    Measure("latency_p50", "enqueue to start at 50/s, median", "ms", "least"),
    Measure("latency_p99", "enqueue to start at 50/s, p99", "ms", "least"),
    Measure("worker_rss", "worker memory under load", "MB RSS", "least"),
    Measure("mail_accept", "e-mail accepted, 1 KB", "mails/s"),
    Measure("mail_end_to_end", "e-mail accepted and delivered into smtp-sink", "mails/s"),
    Measure("mail_from_queue", "e-mail from a full queue into smtp-sink", "mails/s"),
    Measure("mail_logged", "e-mail into a stub provider, with a delivery log", "mails/s"),
    Measure("notices", "lines of that delivery log written and marked", "notices/s"),
    Measure("rest_post", "durable POST /api/v1/deliveries, 64 connections", "requests/s"),
    Measure("rest_p99", "durable POST, p99", "ms", "least"),
    Measure(
        "booking_delay",
        "a booking's p99 with a hanging SMTP server, beyond a healthy one's",
        "ms",
        "least",
    ),
    Measure(
        "latency_own_process_p50", "the same, worker in the caller's process, median", "ms", "least"
    ),
    Measure(
        "latency_own_process_p99", "the same, worker in the caller's process, p99", "ms", "least"
    ),
    Measure("cost_small", "cost per delivery (enqueue and drain), few rows", "µs", "least"),
    Measure("cost_large", "cost per delivery (enqueue and drain), many rows", "µs", "least"),
    Measure("cost_growth", "many rows against few", "times", "least"),
    Measure(
        "kill_duplicates", "duplicates per SIGKILL of the worker under load", "deliveries", "least"
    ),
    Measure("kill_lost", "lost in all those kills", "deliveries", "least"),
    Measure("recovery_first", "SIGKILL to the first delivery resumed, worst", "s", "least"),
    Measure("recovery_last", "SIGKILL to the last delivery resumed, worst", "s", "least"),
    Measure("recovery_rate", "throughput right after a restart", "% of normal"),
    Measure("idle_cpu", "a worker process with nothing to do", "% of a core", "least"),
    Measure("append_concurrent", "records appended by 64 concurrent callers", "records/s"),
    Measure("append_bulk", "records appended, a thousand a call", "records/s"),
    Measure("open_million", "open a file of a million active records", "s", "least"),
    Measure("open_memory", "memory for each of them", "bytes RSS", "least"),
    Measure("reaction", "another process adds: an idle worker starts it", "s", "least"),
    Measure(
        "graph_share",
        "mail through a Graph that takes 250 ms, against what four requests at once allow",
        "%",
    ),
    Measure("import_time", "import homing", "ms", "least"),
    Measure("help_time", "homing --help", "ms", "least"),
    Measure("serve_ready", "homing serve, ready", "s", "least"),
    Measure("serve_rss", "homing serve, memory under load", "MB RSS", "least"),
    Measure("simulator", "simulator, twenty seeds", "s", "least"),
)
BY_NAME = {measure.name: measure for measure in MEASURES}
