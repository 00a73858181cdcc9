"""The settings `GRAPH_*`: where they come from, and what is refused."""

from pathlib import Path

import pytest

from homing.domain.errors import SettingsError
from homing.providers.graph.provider import GraphProvider
from homing.providers.graph.settings import settings_from
from homing.runtime.urls import provider_from_url
from tests.unit.graph.fakes import ENV, SENDER, write_env


def refused(environ: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        settings_from(environ)
    return str(caught.value)


def test_everything_may_stand_in_the_file(tmp_path: Path) -> None:
    settings = settings_from({"GRAPH_ENV_FILE": str(write_env(tmp_path))})

    assert (settings.tenant_id, settings.client_id, settings.sender) == (
        "contoso",
        "client-1",
        SENDER,
    )
    assert settings.api_url == "https://graph.microsoft.com/v1.0"
    assert not settings.stays_local


@pytest.mark.parametrize(
    "name", ["GRAPH_TENANT_ID", "GRAPH_CLIENT_ID", "GRAPH_REFRESH_TOKEN", "GRAPH_SENDER"]
)
def test_each_required_setting_is_named_when_it_is_missing(tmp_path: Path, name: str) -> None:
    """O-037."""
    lines = [line for line in ENV.splitlines() if name not in line]
    path = write_env(tmp_path, "\n".join(lines))

    assert name in refused({"GRAPH_ENV_FILE": str(path)})


def test_the_environment_is_stronger_except_for_the_refresh_token(tmp_path: Path) -> None:
    environ = {"GRAPH_ENV_FILE": str(write_env(tmp_path)), "GRAPH_SENDER": "other@example.org"}
    assert settings_from(environ).sender == "other@example.org"

    lines = [line for line in ENV.splitlines() if "REFRESH" not in line]
    write_env(tmp_path, "\n".join(lines))
    assert "GRAPH_REFRESH_TOKEN" in refused({**environ, "GRAPH_REFRESH_TOKEN": "of-old-times"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GRAPH_SENDER", "not an address"),
        ("GRAPH_SENDER", "a@b/../../me"),
        ("GRAPH_TENANT_ID", "a/b"),
        ("GRAPH_API_URL", "http://graph.example.org"),
        ("GRAPH_LOGIN_URL", "ftp://127.0.0.1"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(tmp_path: Path, name: str, value: str) -> None:
    assert name in refused({"GRAPH_ENV_FILE": str(write_env(tmp_path)), name: value})


def test_a_file_that_cannot_be_replaced_safely_is_refused(tmp_path: Path) -> None:
    path = write_env(tmp_path)
    link = tmp_path / "link.env"
    link.symlink_to(path)
    assert "symbolic link" in refused({"GRAPH_ENV_FILE": str(link)})
    assert "No such file" in refused({"GRAPH_ENV_FILE": str(tmp_path / "missing")})

    tmp_path.chmod(0o777)
    assert "every user" in refused({"GRAPH_ENV_FILE": str(path)})


def test_the_url_names_the_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPH_ENV_FILE", str(write_env(tmp_path)))

    assert isinstance(provider_from_url("graph:"), GraphProvider)
    with pytest.raises(SettingsError, match="takes env_file alone"):
        provider_from_url("graph:?drafts=on")
    monkeypatch.delenv("GRAPH_ENV_FILE")
    named = provider_from_url(f"graph:?env_file={tmp_path}/.env")
    assert isinstance(named, GraphProvider)
    assert named.settings.env_file == tmp_path / ".env"


def test_no_secret_is_shown(tmp_path: Path) -> None:
    environ = {"GRAPH_ENV_FILE": str(write_env(tmp_path)), "GRAPH_CLIENT_SECRET": "hush-hush"}

    assert "hush" not in repr(settings_from(environ))
