"""`doctor` finds what would keep deliveries from being made, and says what to do."""

import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Sink
from aiosmtpd.smtp import SMTP, AuthResult

from homing.domain.delivery import Fact
from homing.domain.message import Email
from homing.engine.process.liveness import Liveness
from homing.plugins.doctor import examine
from homing.plugins.programs import Program
from homing.ports import Finding
from homing.runtime.app import Homing
from homing.runtime.clock import SystemClock
from homing.settings import Loaded, load
from homing.stores.emergency import FileJournal
from homing.stores.sql.sqlite import SqliteStore
from homing.testing import samples
from tests.unit.cli.programs import free_port
from tests.unit.content.keys import private_key

logging.getLogger("mail.log").setLevel(logging.CRITICAL)


@pytest.fixture(autouse=True)
async def _in_a_folder_with_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with Homing("sqlite:///homing.db", worker=False):
        pass


def given(toml: str = "", **environ: str) -> Loaded:
    file = Path("homing.toml")
    file.write_text(toml)
    file.chmod(0o600)
    return load(file, environ)


def put(name: str, mode: int, text: str = "") -> None:
    """A file with this mode."""
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(text)
    Path(name).chmod(mode)


def flip(name: str, place: int) -> None:
    data = bytearray(Path(name).read_bytes())
    data[place] ^= 0xFF
    Path(name).write_bytes(data)


def named(start: str) -> list[Path]:
    """The files that begin so."""
    return [path for path in Path.cwd().iterdir() if path.name.startswith(start)]


def instead_of(name: str) -> Path:
    """Where this file was; those beside it are gone, too."""
    for path in named(name):
        if path.is_file():
            path.unlink()
    return Path(name)


async def found(loaded: Loaded) -> dict[tuple[str, str], list[str]]:
    """Details by check and verdict."""
    by: dict[tuple[str, str], list[str]] = {}
    for finding in await examine(Program(loaded=loaded)):
        assert isinstance(finding, Finding)
        by.setdefault((finding.check, finding.verdict), []).append(finding.detail)
    return by


async def test_a_good_installation_has_one_warning_no_worker() -> None:
    report = await found(given())

    assert not [check for check, verdict in report if verdict == "bad"]
    assert report["store", "good"] == ["opened; durability settings are safe"]
    assert report["files", "good"] == ["homing.db: modes are as they should be"]
    assert report["provider", "warning"] == [
        "the stub sends nothing: HOMING_PROVIDER names the server that does"
    ]
    assert report["clock", "good"]
    assert "start `homing serve`" in report["worker", "warning"][0]
    assert report["sqlite", "good"][0].startswith("SQLite 3.")


async def test_it_says_how_long_records_are_kept() -> None:
    report = await found(given("routes.mail.retention = {failed = 'forever', payload = '2d'}"))

    assert (
        "mail keeps delivered 30d, dismissed 30d, failed forever, failed_payload 90d, payload 2d,"
        " attempts 90d, key 7d, dead_letter 90d"
    ) in report["retention", "good"]


async def test_a_living_worker_is_seen() -> None:
    async with Homing("sqlite:///homing.db", provider="stub:"):
        report = await found(given())

    assert report["worker", "good"] == ["1 process(es) alive"]


async def test_a_store_in_memory_and_one_that_cannot_be_opened() -> None:
    assert (
        "lost when the process ends"
        in (await found(given("store = 'memory:'")))["store", "warning"][0]
    )
    report = await found(given("store = 'sqlite:////none/x.db'"))
    assert "the store /none/x.db does not exist" in report["no store", "bad"][0]
    assert "cannot be made" in report["files", "bad"][0]


async def test_a_missing_store_is_named_and_not_created(tmp_path: Path) -> None:
    report = await found(given("store = 'sqlite:///other.db'"))

    [detail] = report["no store", "bad"]
    assert f"the store {tmp_path}/other.db does not exist" in detail
    assert report["provider", "warning"]
    assert not named("other.db")


async def test_a_store_that_cannot_be_read_is_a_finding_beside_the_others() -> None:
    instead_of("homing.db").mkdir(0o700)

    report = await found(given())

    assert "homing.db: " in report["store", "bad"][0]
    assert "SQLITE_IOERR" in report["store", "bad"][0]
    assert report["files", "bad"] == ["homing.db cannot be written"]
    assert report["provider", "warning"]


async def test_a_check_that_fails_is_a_finding_beside_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def look(self: Liveness) -> None:
        del self
        raise PermissionError(13, "Permission denied", "homing.db.processes")

    monkeypatch.setattr(Liveness, "look", look)

    report = await found(given())

    [detail] = report["worker", "bad"]
    assert "this could not be checked" in detail
    assert "'homing.db.processes'" in detail
    assert report["clock", "good"]


async def test_damage_of_a_jsonl_store_is_told_by_the_run_that_meets_it() -> None:
    async with Homing("jsonl:///queue.jsonl", provider="stub:", worker=False) as homing:
        await homing.submit(Email(to="ann@example.org", subject="Hi", text="Hi"), key="a")
        await homing.submit(Email(to="bob@example.org", subject="Hi", text="Hi"), key="b")
    flip("queue.jsonl", 100)

    report = await found(given("store = 'jsonl:///queue.jsonl'"))

    [met] = report["store", "warning"]
    assert met.startswith("damage was detected within the last day: queue.jsonl: bytes 0 to")
    again = await found(given("store = 'jsonl:///queue.jsonl'"))
    assert met in again["store", "warning"]


@pytest.mark.parametrize("name", ["homing.db", "homing.db-wal", "homing.db.emergency", "alerts"])
async def test_files_that_others_can_read_are_bad(name: str) -> None:
    put(name, 0o640)

    report = await found(given("log = {alert_file = 'alerts'}"))

    assert report["files", "bad"] == [f"{name} can be read by others: chmod 600 {name}"]


async def test_a_log_in_a_missing_folder_is_bad() -> None:
    report = await found(given("log = {alert_file = 'none/alerts', delivery_file = '.'}"))

    assert "none/alerts cannot be made: its folder cannot be written" in report["files", "bad"]
    assert ". cannot be written" in report["files", "bad"]


async def test_a_password_in_a_file_for_all_is_bad() -> None:
    loaded = given(f"provider = 'smtp://u:p@127.0.0.1:{free_port()}?tls=none'\nsender = 'a@b.c'")
    put("homing.toml", 0o644)

    [detail] = (await found(loaded))["files", "bad"]

    assert detail.startswith("homing.toml holds a secret (provider) and can be read by others")


@pytest.mark.parametrize(("mode", "is_open"), [(0o644, True), (0o660, True), (0o640, False)])
async def test_private_keys_that_others_can_read_are_warned_of(mode: int, is_open: bool) -> None:
    """Their own group may: that is how hosts give a key to a service."""
    for name in ("dkim.pem", "tls.pem"):
        put(name, mode, private_key())

    report = await found(
        given(
            "sender = 'a@example.org'\n"
            "[dkim.'example.org']\nselector = 's'\nkey_path = 'dkim.pem'\n"
            "[server]\ntls_cert = 'cert.pem'\ntls_key = 'tls.pem'\n"
        )
    )

    names = {"dkim.pem": "dkim.example.org.key_path", "tls.pem": "server.tls_key"}
    expected = [
        f"{file} is a private key ({name}) that others can use: chmod 600 {file}"
        for file, name in names.items()
    ]
    assert report.get(("files", "warning"), []) == (expected if is_open else [])


async def test_bad_settings_and_templates_are_findings() -> None:
    report = await found(given("templates = 'none'"))
    assert "templates" in report["settings", "bad"][0]

    put("catalog/README", 0o600)
    assert (await found(given("templates = 'catalog'")))["templates", "warning"] == [
        "0 template(s) in catalog"
    ]


async def test_what_waits_in_the_emergency_journal_is_told() -> None:
    journal = FileJournal("homing.db.emergency")
    await journal.append([samples.ended(samples.delivery("d-1"))])
    report = await found(given())
    assert report["journal", "warning"] == [
        "1 outcome(s) wait in the emergency journal: start a worker"
    ]

    await journal.append([samples.ended(samples.delivery("d-2"))])
    flip("homing.db.emergency", 30)
    assert "damaged" in (await found(given()))["journal", "bad"][0]


async def test_what_was_kept_apart_of_a_damaged_journal_and_a_backup_put_back_are_told() -> None:
    await one_commit("homing.db")
    await FileJournal("homing.db.emergency").append([samples.ended(samples.delivery("d-1"))])
    flip("homing.db.emergency", 40)
    assert "bytes cannot be read" in (await found(given()))["journal", "bad"][0]
    put_back_an_older_copy("homing.db")

    first = await found(given())
    await one_commit("homing.db")
    report = await found(given())

    assert "homing.db.emergency.damaged-1: outcomes that could" in report["journal", "bad"][0]
    for each in (first, report):
        [text] = each["backup", "warning"]
        assert text.startswith("homing.db is older than the one")


def put_back_an_older_copy(name: str) -> None:
    file = Path(f"{name}.high-water")
    database, _, beat = file.read_text().partition(" ")
    file.write_text(f"{database} {int(beat) + 1000}")


async def one_commit(name: str) -> None:
    store = SqliteStore(name)
    await store.open()
    await store.save([], [Fact("audit", "route:mail/1", 1, {})])
    await store.close()


async def test_a_clock_behind_the_workers_and_a_paused_route_are_bad() -> None:
    ahead_ms = SystemClock().now_ms() + 3_600_000
    homing = Homing("sqlite:///homing.db", provider="stub:", worker=False)
    async with homing:
        await homing.store.save([], [Fact("worker", "w-1", ahead_ms, {"beats": 1, "boot": "x"})])
        await homing.ops.pause("mail", actor="ann", reason="moving")

    report = await found(given())

    assert "ahead of this one" in report["clock", "bad"][0]
    assert report["route", "bad"] == [
        "mail is paused: moving. `homing resume mail` starts it again"
    ]


async def test_fast_time_is_a_warning() -> None:
    assert "600 times as fast" in (await found(given("time_scale = 600")))["clock", "warning"][0]


class Mail:
    """A submission server with TLS that knows one password."""

    def __init__(self, authority: trustme.CA, folder: Path) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self.context)
        self.ca = folder / "ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        self.port = free_port()
        self.controller = Controller(
            self,
            hostname="127.0.0.1",
            port=self.port,
            tls_context=self.context,
            require_starttls=True,
            authenticator=self.log_in,
            auth_required=True,
        )

    def log_in(self, server: SMTP, session: Any, envelope: Any, how: str, login: Any) -> AuthResult:
        return AuthResult(success=login.password == b"right", handled=False)

    def url(self, password: str = "right", options: str = "") -> str:
        return f"smtp://ann:{password}@127.0.0.1:{self.port}?ca_file={self.ca}{options}"


@pytest.fixture
def mail(tmp_path: Path) -> Iterator[Mail]:
    server = Mail(trustme.CA(), tmp_path)
    server.controller.start()
    yield server
    server.controller.stop()


def provider(url: str) -> Loaded:
    return given("sender = 'shop@example.org'", HOMING_PROVIDER=url)


async def test_a_provider_that_takes_our_credentials_is_good(mail: Mail) -> None:
    report = await found(provider(mail.url()))

    assert report["provider", "good"] == ["reachable, trusted, credentials accepted"]
    assert ("provider", "warning") not in report


async def test_a_wrong_password_is_bad_and_not_repeated(mail: Mail) -> None:
    [detail] = (await found(provider(mail.url("SECRET"))))["provider", "bad"]

    assert detail.startswith("auth")
    assert "535" in detail
    assert "SECRET" not in detail
    assert "Correct them in the setting `provider` (`HOMING_PROVIDER`)" in detail


async def test_a_certificate_of_nobody_is_bad_and_off_is_a_warning_of_its_own(mail: Mail) -> None:
    strange = f"smtp://ann:right@127.0.0.1:{mail.port}"

    assert ("provider", "bad") in await found(provider(strange))
    report = await found(provider(f"{strange}?verify=off"))
    assert "verify=off" in report["provider", "warning"][0]
    assert report["provider", "good"] == [
        "reachable, encrypted, certificate not checked, credentials accepted"
    ]


async def test_a_provider_without_tls_and_login_is_not_called_trusted() -> None:
    port = free_port()
    server = Controller(Sink(), hostname="127.0.0.1", port=port)
    server.start()
    try:
        report = await found(provider(f"smtp://127.0.0.1:{port}?tls=none"))
    finally:
        server.stop()
    assert report["provider", "good"] == ["reachable, not encrypted"]


async def test_several_warnings_of_one_provider_are_all_shown(mail: Mail) -> None:
    half = f"smtp://ann@127.0.0.1:{mail.port}?verify=off"

    report = await found(provider(half))

    assert len(report["provider", "warning"]) == 2


async def test_nobody_at_the_port_is_bad() -> None:
    report = await found(provider(f"smtp://127.0.0.1:{free_port()}?tls=none"))

    assert ("provider", "bad") in report
