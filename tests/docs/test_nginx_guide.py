"""docs/guides/nginx.md: its configuration runs in a real nginx, in front of a real service."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from homing.runtime.app import Homing
from homing.settings.tree import LimitSettings
from homing.web.api.intake import Intake
from homing.web.http.bodies import Bodies
from homing.web.serving import KEEP_ALIVE_S
from tests.servers import free_port
from tests.unit.web.served import HOST, homing_serve

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "nginx.md").read_text()
NAME = "mail.example.org"
LETSENCRYPT = f"/etc/letsencrypt/live/{NAME}"
# What Debian's own nginx.conf does around a file of conf.d, in a folder of its own.
MAIN = """
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/homing.conf;
}}
"""
START_WITHIN_S = 30.0


class Front:
    """The service as the world sees it."""

    def __init__(self, port: int, token: str, trusted: ssl.SSLContext) -> None:
        self._port = port
        self._token = token
        self._trusted = trusted

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(HOST, self._port, timeout=30, context=self._trusted)

    def headers(self, **more: str) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in more.items()}
        return {"Host": NAME, "Authorization": f"Bearer {self._token}"} | named

    def call(
        self, method: str, path: str, headers: Mapping[str, str], body: object = None
    ) -> tuple[int, Any]:
        connection = self.connect()
        data = None if body is None else msgspec.json.encode(body)
        connection.request(method, path, data, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        read = answer.read()
        connection.close()
        return answer.status, msgspec.json.decode(read)

    def post(self, key: str, **fields: object) -> tuple[int, Any]:
        body = {"to": ["ok@stub.test"], "text": "hello", **fields}
        return self.call("POST", "/api/v1/deliveries", self.headers(Idempotency_Key=key), body)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp("nginx")
    (folder / "homing.toml").write_text(_block("toml"))
    make = [sys.executable, "-m", "homing", "token", "create", "shop", "--role", "admin"]
    token = subprocess.check_output(make, cwd=folder, text=True).strip()
    with homing_serve(folder) as served, _nginx(folder, served.port) as (port, trusted):
        yield Front(port, token, trusted)


def _block(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    return found[1]


@contextmanager
def _nginx(folder: Path, behind: int) -> Iterator[tuple[int, ssl.SSLContext]]:
    authority = trustme.CA()
    issued = authority.issue_cert(NAME, HOST)
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    port = free_port()
    replaced = {
        "127.0.0.1:8025": f"127.0.0.1:{behind}",
        "listen 443": f"listen {HOST}:{port}",
        f"{LETSENCRYPT}/fullchain.pem": f"{folder}/both.pem",
        f"{LETSENCRYPT}/privkey.pem": f"{folder}/both.pem",
    }
    text = _block("nginx")
    for documented, here in replaced.items():
        assert documented in text
        text = text.replace(documented, here)
    (folder / "homing.conf").write_text(text)
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder, user=user))
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    process = subprocess.Popen(
        [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "daemon off;"]
    )
    try:
        _await(process, port, trusted)
        yield port, trusted
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _await(process: subprocess.Popen[bytes], port: int, trusted: ssl.SSLContext) -> None:
    deadline_s = time.monotonic() + START_WITHIN_S
    while True:
        try:
            assert Front(port, "", trusted).call("GET", "/readyz", {})[0] == 200
        except ConnectionRefusedError:
            assert process.poll() is None
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        else:
            return


def test_a_token_opens_it_and_nothing_else_does(front: Front) -> None:
    assert front.call("GET", "/api/v1/stats", {"Host": NAME})[0] == 401
    assert front.call("GET", "/api/v1/stats", front.headers())[0] == 200


def test_mail_is_accepted_also_a_large_one(front: Front) -> None:
    status, answer = front.post("k-1")
    assert (status, answer["created"]) == (202, True)
    large = {"filename": "a.bin", "content_base64": b"x" * 3_000_000}
    assert front.post("k-2", attachments=[large])[0] == 202


def test_events_arrive_while_they_happen(front: Front) -> None:
    connection = front.connect()
    connection.request("GET", "/api/v1/events", headers=front.headers())
    stream = connection.getresponse()
    while stream.readline() != b": homing\n":
        pass
    _, posted = front.post("k-3")
    while (line := stream.readline()) and posted["delivery_id"].encode() not in line:
        pass
    assert posted["delivery_id"].encode() in line
    connection.close()


def test_its_numbers_fit_the_service() -> None:
    idle_s = re.search(r"keepalive_timeout (\d+)s;", GUIDE)
    body_mb = re.search(r"client_max_body_size (\d+)m;", GUIDE)
    assert idle_s is not None
    assert body_mb is not None
    assert int(idle_s[1]) < KEEP_ALIVE_S
    intake = Intake(Homing("memory:"), Bodies(), LimitSettings())
    assert int(body_mb[1]) * 2**20 >= intake.limit_bytes
