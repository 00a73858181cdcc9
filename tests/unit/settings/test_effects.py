"""Every setting has an effect: one check for each, and none is without."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain.errors import InvalidRequest, SettingsError, TooLarge
from homing.domain.message import Attachment, Email
from homing.domain.policy import Exponential, FullJitter, Ladder, Retry
from homing.engine.route import Route
from homing.plugins.programs import build, route_for
from homing.plugins.telemetry import Telemetry
from homing.providers.smtp import SmtpProvider
from homing.providers.stub import StubProvider
from homing.runtime.app import Homing
from homing.runtime.clock import ScaledClock
from homing.settings import Settings, load
from homing.settings.leaves import leaves
from homing.stores.memory import MemoryStore
from tests.unit.content.keys import private_key

TESTS = Path(__file__).parents[2]
Check = Callable[[Path], None]
EFFECTS: dict[str, Check] = {}
# These need a server or a process: their effect is shown there.
ELSEWHERE = {
    "server.host": "unit/cli/test_serving.py::test_it_listens_where_the_settings_say",
    "server.port": "unit/cli/test_serving.py::test_it_listens_where_the_settings_say",
    "server.auth": "unit/web/test_access.py::test_with_auth_token_no_call_is_served_without_one",
    "server.public_url": (
        "security/test_web_access_attacks.py::test_with_a_url_no_other_host_is_answered"
    ),
    "server.trusted_proxies": (
        "unit/web/test_access_people.py::test_the_named_proxy_names_the_person"
    ),
    "server.proxy_header": "unit/web/test_access_people.py::test_the_named_proxy_names_the_person",
    "server.proxy_role": (
        "unit/web/test_access_people.py::test_unknown_people_have_the_role_of_the_setting_or_none"
    ),
    "server.session_idle": "unit/web/test_access_people.py::test_it_ends_when_it_is_not_used",
    "server.session_max": (
        "unit/web/test_access_people.py"
        "::test_it_ends_after_its_longest_time_however_much_it_is_used"
    ),
    "server.personal_data_roles": (
        "security/test_web_access_masking.py::test_the_setting_says_which_roles_see"
    ),
    "server.tls_cert": "unit/web/test_tls.py::test_the_service_speaks_https",
    "server.tls_key": "unit/web/test_tls.py::test_the_service_speaks_https",
    "telemetry.otlp": "unit/observers/test_otlp.py::test_metrics_and_spans_reach_the_collector",
    "telemetry.otlp_endpoint": (
        "unit/observers/test_otlp.py::test_metrics_and_spans_reach_the_collector"
    ),
    "telemetry.sentry_dsn": "unit/observers/test_sentry.py::test_a_dead_letter_is_reported",
}


def effect_of(name: str) -> Callable[[Check], Check]:
    def note(check: Check) -> Check:
        EFFECTS[name] = check
        return check

    return note


@pytest.mark.parametrize("name", [leaf.name for leaf in leaves()])
def test_the_setting_has_an_effect(name: str, tmp_path: Path) -> None:
    if name in ELSEWHERE:
        file, test = ELSEWHERE[name].split("::")
        assert f"def {test}(" in (TESTS / file).read_text()
        return
    EFFECTS[name](tmp_path)


def test_no_check_is_left_of_a_setting_that_is_gone() -> None:
    assert {*EFFECTS, *ELSEWHERE} == {leaf.name for leaf in leaves()}


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def given(**tree: Any) -> Settings:
    """Settings as a file would give them."""
    environ = {"HOMING_STORE": "memory:"}
    for name, value in _flat(tree):
        environ[f"HOMING_{name}"] = value if isinstance(value, str) else json.dumps(value)
    return load(Path("/dev/null"), environ).settings


def _flat(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name.upper()}__")
        else:
            yield f"{prefix}{name.upper()}", value


def sent(settings: Settings, **fields: Any) -> bytes:
    """What the stub was given for one mail."""
    homing = build(settings, worker=False)
    email = Email(**{"to": "ok@stub.test", "subject": "S", "text": "t", **fields})

    async def run() -> bytes:
        async with homing:
            await homing.send(email)
            [provider] = homing.providers
            assert isinstance(provider, StubProvider)
            return provider.calls[-1].data

    return asyncio.run(run())


def mail(**words: Any) -> Route:
    return route_for(given(routes={"mail": words}))


def retry_of(**words: Any) -> Retry:
    return mail(**words).plan.stages[0].retry


@effect_of("store")
def _(folder: Path) -> None:
    assert isinstance(build(given(), worker=False).store, MemoryStore)
    with pytest.raises(SettingsError, match="store: unknown store 'mysql'"):
        build(given(store="mysql://x"), worker=False)


@effect_of("provider")
def _(folder: Path) -> None:
    chosen = given(provider="smtp://127.0.0.1:2525?tls=none", sender="a@example.org")
    [provider] = build(chosen, worker=False).providers
    assert isinstance(provider, SmtpProvider)
    with pytest.raises(SettingsError, match="provider: tls: "):
        build(given(provider="smtp://mail.example.org?tls=none", sender="a@b.c"), worker=False)


@effect_of("sender")
def _(folder: Path) -> None:
    assert b"From: Shop <shop@example.org>" in sent(given(sender="Shop <shop@example.org>"))
    with pytest.raises(SettingsError, match="sender: is required"):
        build(given(provider="smtp://mail.example.org"), worker=False)


@effect_of("allowed_senders")
def _(folder: Path) -> None:
    allowed = given(
        sender="shop@example.org", allowed_senders=["ann@example.org", "@news.example.org"]
    )
    for sender in ("Ann <ann@example.org>", "any@news.example.org"):
        assert f"From: {sender}\r\n".encode() in sent(allowed, sender=sender)
    with pytest.raises(InvalidRequest, match="from: is not one that this route may send as"):
        sent(allowed, sender="bob@example.org")
    with pytest.raises(SettingsError, match=r"allowed_senders\[0\]: "):
        build(given(allowed_senders=["nobody"]), worker=False)


def dkim(folder: Path, domain: str = "example.org", **words: str) -> Settings:
    """Settings as a file has them: no variable can be named after a domain."""
    (folder / "key.pem").write_text(private_key())
    table = {"selector": "mail", "key_path": str(folder / "key.pem"), **words}
    lines = [f"{name} = {json.dumps(value)}" for name, value in table.items()]
    file = folder / "homing.toml"
    file.write_text(
        'store = "memory:"\nsender = "shop@example.org"\n'
        f'[dkim."{domain}"]\n' + "\n".join(lines) + "\n"
    )
    return load(file, {}).settings


@effect_of("dkim.<name>.selector")
def _(folder: Path) -> None:
    assert b" s=mail; " in b" ".join(sent(dkim(folder)).split())
    with pytest.raises(SettingsError, match=r"dkim\.example\.org\.selector: is not a selector"):
        build(dkim(folder, selector="a b"), worker=False)
    with pytest.raises(SettingsError, match=r"dkim\.example\.com: is unused"):
        dkim(folder, "example.com")
    with pytest.raises(SettingsError, match=r"dkim\.example\.org\.bits: there is no such setting"):
        dkim(folder, bits="1")


@effect_of("dkim.<name>.key_path")
def _(folder: Path) -> None:
    assert sent(dkim(folder)).startswith(b"DKIM-Signature: ")
    with pytest.raises(SettingsError, match=r"dkim\.example\.org\.key_path: .* No such file"):
        build(dkim(folder, key_path=str(folder / "none.pem")), worker=False)
    (folder / "other.pem").write_text("not a key")
    with pytest.raises(SettingsError, match="not an RSA private key in PEM"):
        build(dkim(folder, key_path=str(folder / "other.pem")), worker=False)


@effect_of("templates")
def _(folder: Path) -> None:
    parts = folder / "welcome" / "en"
    parts.mkdir(parents=True)
    (parts / "subject.tmpl").write_text("Hello {{ name }}")
    (parts / "text.tmpl").write_text("Nice to see you")
    data = sent(
        given(templates=str(folder)),
        subject="",
        text="",
        template_id="welcome",
        variables={"name": "Ann"},
    )
    assert b"Subject: Hello Ann" in data
    with pytest.raises(SettingsError, match="templates"):
        build(given(templates=str(folder / "none")), worker=False)


@effect_of("journal")
def _(folder: Path) -> None:
    path = folder / "outcomes"
    asyncio.run(_started(build(given(journal=str(path)), worker=True)))
    assert path.stat().st_mode & 0o777 == 0o600


async def _started(homing: Homing) -> None:
    async with homing:
        """The journal is made before there is need of it."""


@effect_of("time_scale")
def _(folder: Path) -> None:
    async def clock_of(homing: Homing) -> object:
        async with homing:
            return homing.engine.clock

    clock = asyncio.run(clock_of(build(given(time_scale=600), worker=False)))
    assert isinstance(clock, ScaledClock)
    assert clock.scale == 600.0


@effect_of("shutdown_grace")
def _(folder: Path) -> None:
    async def run() -> None:
        homing = build(given(shutdown_grace="10ms", provider="stub:?latency_ms=9000"), worker=True)
        await homing.start()
        await homing.send(Email(to="ok@stub.test", subject="S", text="t"), wait=False)
        await homing.stop()

    asyncio.run(asyncio.wait_for(run(), 4.0))


@effect_of("log.level")
def _(folder: Path) -> None:
    Telemetry(given(log={"level": "error"}))
    assert logging.getLogger().level == logging.ERROR


@effect_of("log.format")
def _(folder: Path) -> None:
    def line(style: str) -> str:
        Telemetry(given(log={"format": style}))
        record = logging.makeLogRecord({"msg": "hello", "levelname": "INFO"})
        return logging.getLogger().handlers[0].format(record)

    assert json.loads(line("json"))["event"] == "hello"
    assert "[info" in line("text")


def watched(settings: Settings, address: str) -> None:
    """One mail to this address, with all who watch."""
    telemetry = Telemetry(settings)
    homing = build(
        settings, worker=False, notifiers=telemetry.notifiers, observers=telemetry.observers
    )

    async def run() -> None:
        async with homing:
            await homing.submit(Email(to=address, subject="S", text="t"))
            await homing.engine.run_until_idle()

    asyncio.run(run())
    telemetry.close()


@effect_of("log.alert_file")
def _(folder: Path) -> None:
    watched(given(log={"alert_file": str(folder / "alerts")}), "bounce@stub.test")
    assert "DEAD LETTER" in (folder / "alerts").read_text()


@effect_of("log.delivery_file")
def _(folder: Path) -> None:
    watched(given(log={"delivery_file": str(folder / "deliveries")}), "ok@stub.test")
    assert "DELIVERED" in (folder / "deliveries").read_text()


@effect_of("telemetry.prometheus")
def _(folder: Path) -> None:
    def endpoint(settings: Settings) -> object:
        return Telemetry(settings, scraped=True).metrics(build(settings, worker=False))

    assert endpoint(given()) is not None
    assert endpoint(given(telemetry={"prometheus": False})) is None


@effect_of("limits.body_bytes")
def _(folder: Path) -> None:
    with pytest.raises(TooLarge, match="text"):
        sent(given(limits={"body_bytes": 1024}), text="x" * 1025)


@effect_of("limits.attachments_bytes")
def _(folder: Path) -> None:
    with pytest.raises(TooLarge, match="attachments"):
        sent(given(limits={"attachments_bytes": 3}), attachments=[Attachment("a", b"four")])


@effect_of("limits.recipients")
def _(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="to"):
        sent(given(limits={"recipients": 1}), to=["a@stub.test", "b@stub.test"])


@effect_of("routes.<name>.retry.ladder")
def _(folder: Path) -> None:
    assert retry_of(retry={"ladder": ["1s", "2m"]}).schedule == Ladder((1.0, 120.0))


@effect_of("routes.<name>.retry.exponential.initial")
def _(folder: Path) -> None:
    assert retry_of(retry={"exponential": {"initial": "3s"}}).schedule == Exponential(3.0)


@effect_of("routes.<name>.retry.exponential.multiplier")
def _(folder: Path) -> None:
    assert retry_of(retry={"exponential": {"multiplier": 3}}).schedule == Exponential(1.0, 3.0)


@effect_of("routes.<name>.retry.exponential.max")
def _(folder: Path) -> None:
    growing = Exponential(1.0, 2.0, 60.0)
    assert retry_of(retry={"exponential": {"max": "1m"}}).schedule == growing


@effect_of("routes.<name>.retry.jitter")
def _(folder: Path) -> None:
    assert isinstance(retry_of(retry={"jitter": True}).schedule, FullJitter)


@effect_of("routes.<name>.retry.retry_after_min")
def _(folder: Path) -> None:
    assert retry_of(retry={"retry_after_min": "1m"}).retry_after.min_s == 60.0


@effect_of("routes.<name>.retry.retry_after_max")
def _(folder: Path) -> None:
    assert retry_of(retry={"retry_after_max": "5m"}).retry_after.cap_s == 300.0


@effect_of("routes.<name>.max_attempts")
def _(folder: Path) -> None:
    assert retry_of(max_attempts=3).max_attempts == 3


@effect_of("routes.<name>.on_unknown")
def _(folder: Path) -> None:
    assert mail(on_unknown="hold").plan.on_unknown == "hold"


@effect_of("routes.<name>.on_route_fault")
def _(folder: Path) -> None:
    assert mail(on_route_fault="fail").plan.on_route_fault == "fail"


@effect_of("routes.<name>.timeout")
def _(folder: Path) -> None:
    assert mail(timeout="9s").plan.stages[0].timeout_s == 9.0


@effect_of("routes.<name>.concurrency")
def _(folder: Path) -> None:
    assert mail(concurrency=3).concurrency == 3


def _kept(name: str) -> Check:
    def check(folder: Path) -> None:
        own = mail().plan.retention
        for given, kept_s in (("3d", 3 * 86400.0), ("forever", None)):
            kept = mail(retention={name: given}).plan.retention
            assert kept == replace(own, **{f"{name}_s": kept_s})

    return check


KEPT = ("delivered", "dismissed", "failed", "payload", "failed_payload", "attempts", "key")
for _name in (*KEPT, "dead_letter"):
    EFFECTS[f"routes.<name>.retention.{_name}"] = _kept(_name)
