"""Who watches is what the settings ask for; what is off is not even imported."""

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from homing.domain.errors import SettingsError, StoreUnavailable
from homing.plugins.telemetry import Telemetry
from homing.ports import Query
from homing.runtime.app import Homing
from homing.settings import Settings
from homing.settings.tree import TelemetrySettings
from homing.stores.memory import MemoryStore


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_what_is_off_is_not_imported() -> None:
    script = (
        "import sys; from homing.settings import Settings;"
        "from homing.plugins.telemetry import Telemetry;"
        "Telemetry(Settings());"
        "print(sorted({'prometheus_client', 'opentelemetry', 'sentry_sdk', 'grpc', 'starlette'}"
        " & sys.modules.keys()))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("telemetry", "package", "words"),
    [
        (TelemetrySettings(), "prometheus_client", "telemetry.prometheus: needs the extra `web`"),
        (TelemetrySettings(otlp="http"), "opentelemetry", "telemetry.otlp: needs the extra `otel`"),
        (
            TelemetrySettings(otlp="grpc"),
            "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
            "telemetry.otlp: needs the extra `otel-grpc`",
        ),
        (
            TelemetrySettings(sentry_dsn="https://a@sentry.example.org/1"),
            "sentry_sdk",
            "telemetry.sentry_dsn: needs the extra `sentry`",
        ),
    ],
)
def test_a_missing_package_names_the_setting_and_the_extra(
    monkeypatch: pytest.MonkeyPatch, telemetry: TelemetrySettings, package: str, words: str
) -> None:
    for name in [name for name in sys.modules if name.startswith("homing.observers.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(SettingsError, match=words):
        Telemetry(Settings(telemetry=telemetry), scraped=True)


def test_a_dsn_that_is_none_names_its_setting_and_is_not_repeated() -> None:
    with pytest.raises(SettingsError, match=r"telemetry\.sentry_dsn") as caught:
        Telemetry(Settings(telemetry=TelemetrySettings(sentry_dsn="https://SECRET")))

    assert "SECRET" not in str(caught.value)


class _Broken(MemoryStore):
    async def count(self, query: Query, by: object = ()) -> dict[tuple[str, ...], int]:
        raise StoreUnavailable("gone")


async def test_the_page_of_metrics_answers_also_when_the_store_does_not() -> None:
    telemetry = Telemetry(Settings(), scraped=True)
    homing = Homing(_Broken(), worker=False)
    endpoint = telemetry.metrics(homing)
    assert endpoint is not None

    async with homing:
        response = await endpoint(None)

    assert response.status_code == 200
    assert response.media_type.startswith("text/plain")
    assert b"homing_store_up 0.0" in response.body
