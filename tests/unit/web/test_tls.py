"""HTTPS by `server.tls_cert` and `server.tls_key`."""

from __future__ import annotations

import http.client
import ssl
import time
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from msgspec.structs import replace

from homing.domain.errors import SettingsError
from homing.settings import load
from homing.settings.tree import ServerSettings
from homing.web.serving import tls_context
from tests.servers import free_port
from tests.unit.web.served import HOST, launch, stop


def issue(folder: Path, authority: trustme.CA) -> ServerSettings:
    """A certificate for loopback, in files that these settings name."""
    issued = authority.issue_cert(HOST, "localhost")
    for number, part in enumerate(issued.cert_chain_pems):
        part.write_to_path(folder / "cert.pem", append=number > 0)
    issued.private_key_pem.write_to_path(folder / "key.pem")
    return ServerSettings(tls_cert=str(folder / "cert.pem"), tls_key=str(folder / "key.pem"))


def get(port: int, path: str, trusted: ssl.SSLContext) -> http.client.HTTPResponse:
    connection = http.client.HTTPSConnection(HOST, port, timeout=10, context=trusted)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_the_service_speaks_https(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = issue(tmp_path, authority)
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    port = free_port()
    named = {"server__tls_cert": str(issued.tls_cert), "server__tls_key": str(issued.tls_key)}
    process = launch(tmp_path, "serve", "--port", str(port), **named)
    try:
        deadline_s = time.monotonic() + 30
        while True:
            try:
                assert get(port, "/readyz", trusted).status == 200
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline_s
                assert process.poll() is None
                time.sleep(0.02)
        assert get(port, "/api/v1/stats", trusted).status == 200
        with pytest.raises(ssl.SSLError):
            get(port, "/healthz", ssl.create_default_context())
        plain = http.client.HTTPConnection(HOST, port, timeout=10)
        plain.request("GET", "/healthz")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()
        plain.close()
    finally:
        stop(process)
    assert f"Homing on https://{HOST}:{port} " in (tmp_path / "serve.log").read_text()


class TestWrongFiles:
    def test_one_that_is_missing_is_named(self, tmp_path: Path) -> None:
        good, none = issue(tmp_path, trustme.CA()), str(tmp_path / "none.pem")
        with pytest.raises(SettingsError, match=r"server\.tls_cert: cannot be read"):
            tls_context(replace(good, tls_cert=none))
        with pytest.raises(SettingsError, match=r"server\.tls_key: cannot be read"):
            tls_context(replace(good, tls_key=none))

    def test_a_key_of_another_certificate_is_refused(self, tmp_path: Path) -> None:
        other = tmp_path / "other"
        other.mkdir()
        key = issue(other, trustme.CA()).tls_key
        with pytest.raises(SettingsError, match=r"server\.tls_key: is not the unencrypted"):
            tls_context(replace(issue(tmp_path, trustme.CA()), tls_key=key))

    def test_an_encrypted_key_is_refused_without_a_question(self, tmp_path: Path) -> None:
        good = issue(tmp_path, trustme.CA())
        path = Path(str(good.tls_key))
        key = serialization.load_pem_private_key(path.read_bytes(), None)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(b"secret"),
            )
        )
        with pytest.raises(SettingsError, match=r"server\.tls_key: is not the unencrypted"):
            tls_context(good)

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            ({"TLS_CERT": "/c.pem"}, r"server\.tls_key: is missing"),
            ({"TLS_KEY": "/k.pem"}, r"server\.tls_cert: is missing"),
            (
                {"TLS_CERT": "/c.pem", "TLS_KEY": "-----BEGIN PRIVATE KEY-----\nc2VjcmV0"},
                r"server\.tls_key: takes the path of a PEM file, not its content",
            ),
        ],
    )
    def test_settings_that_cannot_work_are_named(self, given: dict[str, str], says: str) -> None:
        environ = {f"HOMING_SERVER__{name}": text for name, text in given.items()}
        with pytest.raises(SettingsError, match=says) as refused:
            load(Path("/dev/null"), environ)
        assert "c2VjcmV0" not in str(refused.value)
