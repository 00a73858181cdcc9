"""Postfix itself: smtp-source hands it mail, it queues and delivers into smtp-sink.

The harness starts the Postfix and the sink; this process drives and times them.
"""

import shutil
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.contest.mails import RECIPIENT, SENDER, arrived, await_arrival
from benchmarks.contest.plan import Plan, report

SESSIONS = 16
LIMIT_S = 180.0


def main() -> None:
    plan = Plan.from_environment()
    address = urlsplit(plan.servers["postfix"]).netloc
    sink_log = Path(plan.servers["smtp_log"])
    before = arrived(sink_log)
    # Debian keeps it where only root's PATH looks.
    command = [shutil.which("smtp-source") or "/usr/sbin/smtp-source", "-d"]
    command += ["-s", str(SESSIONS), "-m", str(plan.mails), "-l", "1024"]
    began_s = time.perf_counter()
    subprocess.run([*command, "-f", SENDER, "-t", RECIPIENT, address], check=True, timeout=LIMIT_S)
    accepted_s = time.perf_counter() - began_s
    await_arrival(sink_log, before + plan.mails, LIMIT_S)
    delivered_s = time.perf_counter() - began_s
    report(
        {
            "mail_accept": plan.mails / accepted_s,
            "mail_end_to_end": plan.mails / delivered_s,
        },
        {"mails": plan.mails, "accept": f"smtp-source, {SESSIONS} sessions, 1024 bytes"},
    )


if __name__ == "__main__":
    main()
