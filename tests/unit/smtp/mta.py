"""Postfix, Exim and OpenSMTPD as throw-away instances: own config, own spool, a free port.

Each relays to `sink_port` on loopback, refuses nobody@example.org for good, and takes messages of
at most 1 MB. Postfix and Exim take few recipients at a time, Exim few messages per connection.
Postfix and Exim demand TLS. Exim demands that `USER` logs in, and Postfix allows it by what Cyrus
SASL has. Postfix asks for a client certificate and demands none. OpenSMTPD speaks in the clear: the
TLS of the one in Debian 12 (6.8.0p2) is broken by OpenSSL 3 (OpenSMTPD issues 1171 and 1239), and
it takes no login without TLS.
Postfix is the one installed on the machine. Debian lets only one mail server be installed, so of
the other two only the files are unpacked (tools/ensure-system), and they run in a chroot.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from tests.servers import free_port
from tests.unit.smtp import sasldb
from tests.unit.smtp.sending import PASSWORD, USER

UNPACKED = Path(__file__).parents[3] / ".servers" / "mta"
START_S = 20
STOP_S = 10
SIZE_LIMIT = 1_000_000
RECIPIENT_LIMIT = 10


@dataclass(frozen=True)
class Mta:
    """A running mail server; `log` reads what it wrote so far."""

    url: str
    log: Callable[[], str]


@contextmanager
def postfix(sink_port: int) -> Iterator[Mta]:
    _need(shutil.which("postfix", path="/usr/sbin:/usr/bin"), "Postfix is not installed")
    with _home() as home:
        port, etc, queue, data = free_port(), home / "etc", home / "queue", home / "data"
        home.chmod(0o755)  # its programs run as another user
        for folder in (etc, queue, data):
            folder.mkdir()
        shutil.chown(data, "postfix")
        certificate, key, ca_file = _certificate(etc)
        sasldb.make(etc / "sasl", USER, PASSWORD)  # where Debian's Postfix looks
        (etc / "main.cf").write_text(
            POSTFIX_MAIN.format(
                home=home,
                log=home / "maillog",
                queue=queue,
                data=data,
                sink=sink_port,
                size=SIZE_LIMIT,
                recipients=RECIPIENT_LIMIT,
                cert=certificate,
                key=key,
                ca=ca_file,
            )
        )
        (etc / "master.cf").write_text(POSTFIX_MASTER.format(port=port))
        log = home / "log"

        def read() -> str:
            return _text(log, home / "maillog")

        stop = ["postfix", "-c", str(etc), "stop"]
        with log.open("ab") as out:
            started = subprocess.run(
                ["postfix", "-c", str(etc), "start"], stdout=out, stderr=out, check=False
            )
        if started.returncode:
            raise RuntimeError(f"Postfix did not start:\n{log.read_text()}")
        try:
            _await(port, read)
            yield Mta(f"smtp://127.0.0.1:{port}?ca_file={ca_file}", read)
        finally:
            subprocess.run(stop, capture_output=True, timeout=STOP_S, check=True)


@contextmanager
def exim(sink_port: int) -> Iterator[Mta]:
    with _home() as home:
        root = _jail(home, ["/usr/sbin/exim4"], users=["Debian-exim"])
        _, _, ca_file = _certificate(root / "etc", owner=JAIL_UID)
        port = free_port()
        for folder in ("var/spool/exim4", "var/log/exim4", "etc/exim4"):
            (root / folder).mkdir(parents=True)
            if not folder.startswith("etc"):
                os.chown(root / folder, JAIL_UID, JAIL_UID)
        (root / "etc/exim4/exim4.conf").write_text(
            EXIM.format(
                port=port,
                sink=sink_port,
                size=SIZE_LIMIT,
                recipients=RECIPIENT_LIMIT,
                user=USER,
                password=PASSWORD,
            )
        )
        command = ["/usr/sbin/exim4", "-bdf", "-q1s"]
        login = f"{USER.replace('@', '%40')}:{PASSWORD}"
        with _jailed(command, root, home, port) as log:
            yield Mta(f"smtp://{login}@127.0.0.1:{port}?ca_file={ca_file}", log)


@contextmanager
def opensmtpd(sink_port: int) -> Iterator[Mta]:
    with _home() as home:
        root = _jail(
            home,
            ["/usr/sbin/smtpd"],
            users=["opensmtpd", "opensmtpq"],
        )
        port = free_port()
        for folder, mode in (("var/lib/opensmtpd/empty", 0o755), ("var/spool/smtpd", 0o711)):
            (root / folder).mkdir(parents=True, mode=mode)
            (root / folder).chmod(mode)
        (root / "var/run").mkdir()
        config = OPENSMTPD.format(port=port, sink=sink_port, size=SIZE_LIMIT)
        (root / "etc/smtpd.conf").write_text(config)
        with _jailed(["/usr/sbin/smtpd", "-d"], root, home, port) as log:
            yield Mta(f"smtp://127.0.0.1:{port}?tls=none", log)


def _need(there: object, problem: str) -> None:
    if not there:
        pytest.fail(f"{problem}; `make system` brings it")
    if os.geteuid() != 0:
        pytest.skip("a mail server must be started by root")


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="homing-mta-", ignore_cleanup_errors=True) as name:
        yield Path(name)


JAIL_UID = 64_999


def _jail(home: Path, programs: Sequence[str], users: Sequence[str]) -> Path:
    """A root directory with these programs, what they link to, and these users."""
    _need((UNPACKED / programs[0][1:]).exists(), f"{programs[0]} is not unpacked")
    root = home / "root"
    for folder in ("etc", "tmp", "dev"):
        (root / folder).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name, minor in (("null", 3), ("urandom", 9)):
        os.mknod(root / "dev" / name, 0o020666, os.makedev(1, minor))
        (root / "dev" / name).chmod(0o666)
    for program in programs:
        _copy(UNPACKED / program[1:], root / program[1:])
        for library in _libraries(UNPACKED / program[1:]):
            inside = root / str(library).removeprefix(str(UNPACKED)).lstrip("/")
            if not inside.exists():
                _copy(library, inside)
    passwd = ["root:x:0:0::/:/bin/sh"]
    passwd += [
        f"{user}:x:{JAIL_UID + n}:{JAIL_UID + n}::/:/bin/false" for n, user in enumerate(users)
    ]
    group = ["root:x:0:", *(f"{user}:x:{JAIL_UID + n}:" for n, user in enumerate(users))]
    (root / "etc/passwd").write_text("\n".join(passwd) + "\n")
    (root / "etc/group").write_text("\n".join(group) + "\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (root / "etc/mailname").write_text("mta.test\n")
    return root


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)  # whatever it was before, not setuid


def _libraries(program: Path) -> list[Path]:
    own = next(UNPACKED.glob("usr/lib/*-linux-gnu*"), UNPACKED)
    listed = subprocess.run(
        ["ldd", str(program)],
        env={"LD_LIBRARY_PATH": str(own), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    words = listed.replace("=>", " ").split()
    return [Path(word) for word in words if word.startswith("/")]


def _certificate(folder: Path, *, owner: int = 0) -> tuple[Path, Path, Path]:
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1", "localhost")
    certificate, key, ca_file = folder / "cert.pem", folder / "key.pem", folder / "ca.pem"
    leaf.private_key_pem.write_to_path(key)
    certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    authority.cert_pem.write_to_path(ca_file)
    key.chmod(0o600)
    os.chown(key, owner, owner)
    return certificate, key, ca_file


@contextmanager
def _jailed(
    command: Sequence[str], root: Path, home: Path, port: int
) -> Iterator[Callable[[], str]]:
    log = home / "log"

    def read() -> str:
        return _text(log, *sorted((root / "var/log").rglob("*log")))

    with log.open("ab") as out:
        process = subprocess.Popen(
            ["chroot", str(root), *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        _await(port, read, process)
        yield read
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its own session: nobody else is in it
            process.wait()


def _text(*logs: Path) -> str:
    return "\n".join(path.read_text(errors="replace") for path in logs if path.exists())


def _await(
    port: int, log: Callable[[], str], process: subprocess.Popen[bytes] | None = None
) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and (process is None or process.poll() is None):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                if connection.recv(4).startswith(b"220"):
                    return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"the mail server did not start:\n{log()[-3000:]}")


POSTFIX_MAIN = """\
compatibility_level = 3.6
queue_directory = {queue}
data_directory = {data}
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = postfix.test
mydestination =
alias_maps =
relayhost = [127.0.0.1]:{sink}
mynetworks = 127.0.0.0/8
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_recipient_restrictions =
    check_recipient_access inline:{{{{nobody@example.org = 550 5.1.1 no such mailbox}}}}
smtpd_tls_security_level = encrypt
smtpd_tls_cert_file = {cert}
smtpd_tls_key_file = {key}
smtpd_tls_CAfile = {ca}
smtpd_tls_ask_ccert = yes
smtpd_tls_loglevel = 1
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = cyrus
smtpd_peername_lookup = no
message_size_limit = {size}
smtpd_recipient_limit = {recipients}
maillog_file = {log}
maillog_file_prefixes = {home}
"""
POSTFIX_MASTER = """\
127.0.0.1:{port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
proxymap unix - - n - - proxymap
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
smtp unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""
EXIM = """\
primary_hostname = exim.test
local_interfaces = 127.0.0.1
daemon_smtp_ports = {port}
tls_advertise_hosts = *
tls_certificate = /etc/cert.pem
tls_privatekey = /etc/key.pem
auth_advertise_hosts = ${{if def:tls_in_cipher {{*}}{{}}}}
message_size_limit = {size}
recipients_max = {recipients}
smtp_accept_max_per_connection = 20
acl_smtp_rcpt = recipient
deliver_drop_privilege = true
host_lookup =
keep_environment =
smtp_accept_queue_per_connection = 0
log_selector = +all

begin acl
recipient:
  deny recipients = nobody@example.org
       message = 5.1.1 no such mailbox
  accept authenticated = *

begin routers
out:
  driver = manualroute
  route_list = * 127.0.0.1 byname
  self = send
  transport = out

begin transports
out:
  driver = smtp
  port = {sink}
  hosts_avoid_tls = *

begin authenticators
login:
  driver = plaintext
  public_name = LOGIN
  server_prompts = "<| Username: | Password:"
  server_condition = ${{if and {{{{eq {{$auth1}}{{{user}}}}}{{eq {{$auth2}}{{{password}}}}}}}}}
  server_set_id = $auth1
cram:
  driver = cram_md5
  public_name = CRAM-MD5
  server_secret = ${{if eq {{$auth1}}{{{user}}}{{{password}}}fail}}
  server_set_id = $auth1
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${{if and {{{{eq {{$auth2}}{{{user}}}}}{{eq {{$auth3}}{{{password}}}}}}}}}
  server_set_id = $auth2
"""
OPENSMTPD = """\
table wanted {{ ann@example.org, bob@example.org }}
smtp max-message-size {size}
listen on 127.0.0.1 port {port} hostname opensmtpd.test
action "out" relay host smtp://127.0.0.1:{sink}
match from any for rcpt-to <wanted> action "out"
"""
