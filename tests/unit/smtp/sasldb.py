"""Writes the password file of Cyrus SASL; run as a program, because the library cannot be unloaded.

`saslpasswd2` would do the same, and is in a package that starts a daemon.
"""

import ctypes
import subprocess
import sys
from pathlib import Path

CONFIG_PATH = 1  # SASL_PATH_TYPE_CONFIG
CREATE = 1  # SASL_SET_CREATE
HOST = b"postfix.test"  # the realm of users, as for Postfix without smtpd_sasl_local_domain


def make(folder: Path, user: str, password: str) -> None:
    """In this folder: `sasldb2` with one user, and `smtpd.conf` that names it."""
    folder.mkdir()
    database = folder / "sasldb2"
    config = f"pwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: {database}\n"
    (folder / "smtpd.conf").write_text(config)
    command = [sys.executable, __file__, str(folder), user, password]
    subprocess.run(command, check=True, timeout=30, capture_output=True)
    database.chmod(0o644)


def _write(folder: str, user: str, password: str) -> None:
    sasl = ctypes.CDLL("libsasl2.so.2")
    connection = ctypes.c_void_p()
    answers = (
        sasl.sasl_set_path(CONFIG_PATH, folder.encode()),
        sasl.sasl_server_init(None, b"smtpd"),
        sasl.sasl_server_new(b"smtp", HOST, None, None, None, None, 0, ctypes.byref(connection)),
        sasl.sasl_setpass(
            connection, user.encode(), password.encode(), len(password), None, 0, CREATE
        ),
    )
    if any(answers):
        sys.exit(f"Cyrus SASL refused: {answers}")


if __name__ == "__main__":
    _write(*sys.argv[1:])
