"""Settings come from the file and the environment; a wrong one stops the start and names itself."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from homing.domain.errors import SettingsError
from homing.domain.redaction import redact
from homing.settings import Loaded, Seconds, load
from homing.settings.durations import Term
from homing.settings.environment import MAX_FILE_BYTES


def loaded(
    tmp_path: Path, toml: str | None = None, environ: Mapping[str, str] | None = None
) -> Loaded:
    file = None
    if toml is not None:
        file = tmp_path / "homing.toml"
        file.write_text(toml)
    return load(file, environ or {})


def refusal(
    tmp_path: Path, toml: str | None = None, environ: Mapping[str, str] | None = None
) -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(tmp_path, toml, environ)
    return str(caught.value)


def test_without_anything_the_defaults_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    found = load(None, {})

    assert found.settings.store == "sqlite:///homing.db"
    assert found.settings.provider == "stub:"
    assert (found.settings.server.host, found.settings.server.port) == ("127.0.0.1", 8025)
    assert found.origins == {}


def test_homing_toml_in_the_current_folder_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("homing.toml").write_text("[server]\nport = 9000\n")

    assert load(None, {}).settings.server.port == 9000
    assert load(None, {}).origin("server.port") == "homing.toml"


def test_the_file_of_homing_config_is_read_and_must_be_there(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text('sender = "ann@example.org"')

    assert load(None, {"HOMING_CONFIG": str(file)}).settings.sender == "ann@example.org"
    assert "cannot be read: No such file" in refusal(
        tmp_path, environ={"HOMING_CONFIG": str(tmp_path / "none.toml")}
    )


def test_the_routes_of_the_issue_are_read(tmp_path: Path) -> None:
    toml = """
    [routes.mail]
    retry = {ladder = ["1s", "2s"]}
    max_attempts = 3
    on_unknown = "retry"
    on_route_fault = "pause"
    retention = {delivered = "30d"}
    """

    mail = loaded(tmp_path, toml).settings.routes["mail"]

    assert mail.retry is not None
    assert mail.retry.ladder == (Seconds(1.0), Seconds(2.0))
    assert (mail.max_attempts, mail.on_unknown, mail.on_route_fault) == (3, "retry", "pause")
    assert mail.retention is not None
    assert mail.retention.delivered == Term(30 * 86400.0)


def test_the_environment_wins_over_the_file_and_nests(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        "[server]\nport = 9000\nhost = '::1'\n",
        {
            "HOMING_SERVER__PORT": "9001",
            "HOMING_ROUTES__MAIL__RETRY__LADDER": '["1s", 120]',
            "HOMING_ROUTES__MAIL__MAX_ATTEMPTS": "3",
            "HOMING_TELEMETRY__PROMETHEUS": "false",
            "PATH": "/bin",
        },
    )

    mail = found.settings.routes["mail"]
    assert (found.settings.server.port, found.settings.server.host) == (9001, "::1")
    assert mail.retry is not None
    assert mail.retry.ladder == (Seconds(1.0), Seconds(120.0))
    assert mail.max_attempts == 3
    assert found.settings.telemetry.prometheus is False
    assert found.origin("server.port") == "HOMING_SERVER__PORT"
    assert found.origin("server.host") == str(tmp_path / "homing.toml")
    assert found.origin("store") is None


def test_a_whole_table_in_the_environment_takes_the_place_of_the_files(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        "[routes.mail.retry]\nladder = ['1s']\n",
        {"HOMING_ROUTES__MAIL__RETRY": '{exponential = {initial = "2s"}}'},
    )

    retry = found.settings.routes["mail"].retry
    assert retry is not None
    assert retry.ladder is None
    assert retry.exponential is not None
    assert retry.exponential.initial == Seconds(2.0)
    assert found.origin("routes.mail.retry.exponential.initial") == "HOMING_ROUTES__MAIL__RETRY"
    assert found.origin("routes.mail.retry.ladder") == "HOMING_ROUTES__MAIL__RETRY"


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "smtp"
    secret.write_text("smtp://u:p@127.0.0.1:25\n")

    found = loaded(tmp_path, environ={"HOMING_PROVIDER_FILE": str(secret)})

    assert found.settings.provider == "smtp://u:p@127.0.0.1:25"
    assert found.origin("provider") == "HOMING_PROVIDER_FILE"


def test_a_setting_whose_name_ends_in_file_is_not_read_from_one(tmp_path: Path) -> None:
    environ = {"HOMING_LOG__ALERT_FILE": "/none/such"}
    assert loaded(tmp_path, environ=environ).settings.log.alert_file == "/none/such"


def test_text_settings_are_taken_as_they_are(tmp_path: Path) -> None:
    found = loaded(tmp_path, environ={"HOMING_SERVER__HOST": "[::1]", "HOMING_SENDER": "12"})

    assert found.settings.server.host == "[::1]"
    assert found.settings.sender == "12"


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("HOMING_COLOUR", "red", ["colour", "no such setting", "HOMING_COLOUR"]),
        ("HOMING_SERVER__POTR", "1", ["server.potr", "no such setting", "HOMING_SERVER__POTR"]),
        ("HOMING_SERVER__PORT", "eighty", ["server.port", "`int`", "HOMING_SERVER__PORT"]),
        ("HOMING_SERVER__PORT", "70000", ["server.port", "65535", "HOMING_SERVER__PORT"]),
        ("HOMING_SERVER", "x", ["server", "HOMING_SERVER"]),
        ("HOMING_STORE", "", ["HOMING_STORE", "empty"]),
        ("HOMING_SERVER__", "1", ["HOMING_SERVER__", "empty part"]),
        ("HOMING_LOG__LEVEL", "loud", ["log.level", "loud", "HOMING_LOG__LEVEL"]),
        (
            "HOMING_SHUTDOWN_GRACE",
            "soon",
            ["shutdown_grace", "not a duration", "HOMING_SHUTDOWN_GRACE"],
        ),
        ("HOMING_SHUTDOWN_GRACE", "-1", ["shutdown_grace", "duration", "HOMING_SHUTDOWN_GRACE"]),
        ("HOMING_TIME_SCALE", "nan", ["time_scale", "HOMING_TIME_SCALE"]),
        ("HOMING_TIME_SCALE", "0.5", ["time_scale", "HOMING_TIME_SCALE"]),
        ("HOMING_TIME_SCALE", "inf", ["time_scale", "HOMING_TIME_SCALE"]),
        ("HOMING_TELEMETRY__PROMETHEUS", "maybe", ["telemetry.prometheus", "`bool`"]),
        ("HOMING_ROUTES", "mail", ["routes", "table", "HOMING_ROUTES"]),
        ("HOMING_ROUTES__MAIL", "fast", ["routes.mail", "HOMING_ROUTES__MAIL"]),
        ("HOMING_ROUTES__MAIL__RETRY__LADDER", "[1s", ["LADDER", "not a TOML"]),
        ("HOMING_ROUTES__MAIL__RETRY__LADDER", "[]", ["routes.mail.retry.ladder", "no steps"]),
        ("HOMING_ROUTES__MAIL__RETRY__LADDER", "[true]", ["retry.ladder", "duration"]),
        ("HOMING_ROUTES__MAIL__ON_UNKNOWN", "pray", ["routes.mail.on_unknown", "pray"]),
        ("HOMING_ROUTES__MAIL__MAX_ATTEMPTS", "0", ["routes.mail.max_attempts", ">= 1"]),
        ("HOMING_ROUTES__MAIL__TIMEOUT", "0", ["routes.mail.timeout", "HOMING_ROUTES__MAIL"]),
        ("HOMING_ROUTES__MAIL__COLOUR", "1", ["routes.mail.colour", "no such setting"]),
        ("HOMING_TELEMETRY__OTLP_ENDPOINT", "http://x", ["otlp_endpoint", "unused"]),
        ("HOMING_PROVIDER_FILE", "/none/such", ["HOMING_PROVIDER_FILE", "cannot be read"]),
        ("HOMING_COLOUR_FILE", "/dev/null", ["HOMING_COLOUR_FILE", "empty"]),
    ],
)
def test_a_wrong_variable_names_itself(
    tmp_path: Path, variable: str, value: str, words: list[str]
) -> None:
    message = refusal(tmp_path, environ={variable: value})

    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("colour = 1", ["colour", "no such setting", "homing.toml"]),
        ("[server]\npotr = 1", ["server.potr", "no such setting", "homing.toml"]),
        ("store = 5", ["store", "`str`", "homing.toml"]),
        ("server = 5", ["server", "homing.toml"]),
        ("routes = 5", ["routes", "table", "homing.toml"]),
        ("[log\n", ["homing.toml", "not valid TOML"]),
        ("[routes.mail.retry]\nladder = ['1s', 'x']", ["routes.mail.retry.ladder[1]", "duration"]),
        ("shutdown_grace = true", ["shutdown_grace", "duration", "homing.toml"]),
        ("shutdown_grace = inf", ["shutdown_grace", "duration", "homing.toml"]),
        (
            "[routes.mail.retry]\nladder = ['1s']\nexponential = {}",
            ["routes.mail.retry", "either ladder or exponential", "homing.toml"],
        ),
        (
            "[routes.mail.retry.exponential]\ninitial = '2s'\nmax = '1s'",
            ["routes.mail.retry.exponential.max", "shorter"],
        ),
        (
            "[routes.mail.retry]\nretry_after_min = '2s'\nretry_after_max = '1s'",
            ["routes.mail.retry.retry_after_max", "shorter"],
        ),
        (
            "[telemetry]\notlp = 'http'\notlp_endpoint = 'collector:4318'",
            ["telemetry.otlp_endpoint", "http://"],
        ),
        (
            "[telemetry]\notlp = 'http'\notlp_endpoint = 'http://u:hush@[::1'",
            ["telemetry.otlp_endpoint", "http://"],
        ),
    ],
)
def test_a_wrong_line_of_the_file_names_itself(tmp_path: Path, toml: str, words: list[str]) -> None:
    message = refusal(tmp_path, toml)

    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    ("variable", "value", "right"),
    [
        ("HOMING_SERVER__PORT", "abc", "write a value such as 8025"),
        ("HOMING_TIME_SCALE", "0", "write a value such as 1.0"),
        ("HOMING_TELEMETRY__PROMETHEUS", "maybe", "write a value such as true"),
        ("HOMING_ROUTES__MAIL__MAX_ATTEMPTS", "x", "write a value such as 5"),
        ("HOMING_ROUTES__MAIL__RETRY__LADDER", "5m", 'write a value such as ["1m", "5m"]'),
        ("HOMING_ROUTES__MAIL__ON_UNKNOWN", "pray", "use one of retry, hold"),
        ("HOMING_LOG__LEVEL", "loud", "use one of debug, info, warning, error"),
        ("HOMING_SHUTDOWN_GRACE", "soon", "write 30, 1.5s, 5m, 2h, 7d or 1h30m"),
    ],
)
def test_a_wrong_value_is_told_with_a_right_one(
    tmp_path: Path, variable: str, value: str, right: str
) -> None:
    assert f"; {right} (from {variable})" in refusal(tmp_path, environ={variable: value})


@pytest.mark.parametrize(
    "environ",
    [
        {"HOMING_PROVIDER": "stub:", "HOMING_PROVIDER_FILE": "/dev/null"},
        {"HOMING_SERVER": "x", "HOMING_SERVER__PORT": "1"},
    ],
)
def test_two_variables_that_contradict_each_other_are_refused(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    assert any(variable in refusal(tmp_path, environ=environ) for variable in environ)


def test_files_that_are_no_settings_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    long = tmp_path / "long"
    long.write_bytes(b"#" * (MAX_FILE_BYTES + 1))

    assert "not valid TOML" in refusal(tmp_path, environ={"HOMING_CONFIG": str(binary)})
    assert "larger than" in refusal(tmp_path, environ={"HOMING_CONFIG": str(long)})
    assert "cannot be read" in refusal(tmp_path, environ={"HOMING_CONFIG": str(tmp_path)})
    assert "not UTF-8" in refusal(tmp_path, environ={"HOMING_SENDER_FILE": str(binary)})


def test_the_address_of_sentry_is_left_out_of_every_text_that_is_kept() -> None:
    load(environ={"HOMING_TELEMETRY__SENTRY_DSN": "https://key4711@sentry.example.org/1"})
    assert redact("cannot reach https://key4711@sentry.example.org/1") == "cannot reach [redacted]"
