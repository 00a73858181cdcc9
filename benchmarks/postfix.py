"""A throw-away Postfix on loopback, relaying to a sink; stopped by its own process id.

It needs root, as Postfix does. Nothing of the machine's own Postfix is read or written.
"""

import os
import shutil
import signal
import smtplib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers import HOST, free_port

START_S = 20.0
STOP_S = 10.0
PROGRAMS = "/usr/sbin"
DAEMONS = "/usr/lib/postfix/sbin"

# Faster than the defaults, of what was tried: no pauses, and connections to the sink kept.
TUNED = {
    "in_flow_delay": "0",
    "initial_destination_concurrency": "20",
    "default_destination_concurrency_limit": "20",
    "smtp_connection_cache_destinations": HOST,
    "smtpd_peername_lookup": "no",
    "smtputf8_enable": "no",
}

# name, type, private, chroot, wakeup, processes, command
SERVICES = """
{port}     inet        n - n -    -   smtpd
pickup     unix        n - n 60   1   pickup
cleanup    unix        n - n -    0   cleanup
qmgr       unix        n - n 300  1   qmgr
rewrite    unix        - - n -    -   trivial-rewrite
bounce     unix        - - n -    0   bounce
defer      unix        - - n -    0   bounce
trace      unix        - - n -    0   bounce
verify     unix        - - n -    1   verify
flush      unix        n - n 1000 0   flush
proxymap   unix        - - n -    -   proxymap
smtp       unix        - - n -    -   smtp
relay      unix        - - n -    -   smtp
showq      unix        n - n -    -   showq
error      unix        - - n -    -   error
retry      unix        - - n -    -   error
anvil      unix        - - n -    1   anvil
scache     unix        - - n -    1   scache
postlog    unix-dgram  n - n -    1   postlogd
"""


def main_cf(home: Path, sink_port: int) -> str:
    settings = {
        "compatibility_level": "3.6",
        "queue_directory": f"{home}/queue",
        "data_directory": f"{home}/data",
        "command_directory": PROGRAMS,
        "daemon_directory": DAEMONS,
        "mail_owner": "postfix",
        "setgid_group": "postdrop",
        "inet_interfaces": HOST,
        "inet_protocols": "ipv4",
        "myhostname": "localhost.localdomain",
        "mydestination": "",
        "relayhost": f"[{HOST}]:{sink_port}",
        "mynetworks": "127.0.0.0/8",
        "smtpd_relay_restrictions": "permit_mynetworks,reject",
        "alias_maps": "",
        "maillog_file": f"{home}/maillog",
        "maillog_file_prefixes": str(home),
    } | TUNED
    return "".join(f"{name} = {value}\n" for name, value in settings.items())


@contextmanager
def postfix(sink_port: int) -> Iterator[str]:
    """Run it; its URL."""
    program = shutil.which("postfix") or f"{PROGRAMS}/postfix"
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="homing-postfix-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        home.chmod(0o755)  # its daemons run as other users
        for folder in ("etc", "queue", "data"):
            (home / folder).mkdir()
        shutil.chown(home / "data", "postfix")
        (home / "etc/master.cf").write_text(SERVICES.format(port=f"{HOST}:{port}"))
        (home / "etc/main.cf").write_text(main_cf(home, sink_port))
        done = subprocess.run(
            [program, "-c", str(home / "etc"), "start"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"postfix did not start: {done.stderr.strip()[-300:]}")
        try:
            _await(port)
            yield f"smtp://{HOST}:{port}"
        finally:
            _stop(int((home / "queue/pid/master.pid").read_text()))


def _await(port: int) -> None:
    deadline_s = time.monotonic() + START_S
    while True:
        try:
            with smtplib.SMTP(HOST, port, timeout=5) as client:
                client.noop()
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)
        else:
            return


def _stop(pid: int) -> None:
    """The master takes its daemons with it; it is not our child, so look instead of waiting."""
    os.kill(pid, signal.SIGTERM)
    deadline_s = time.monotonic() + STOP_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
