"""Settings of a plugin: from its own variables, checked, named when wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from msgspec import Struct

from homing.domain.errors import SettingsError
from homing.domain.redaction import redact
from homing.settings import Seconds
from homing.settings.own import load_own
from homing.settings.own_names import env, shown_own


class Own(Struct, frozen=True):
    url: Annotated[str, env("SHOP_URL", "Where the shop is.", required=True)] = ""
    secret: Annotated[str | None, env("SHOP_SECRET", "Its key.", secret=True)] = None
    tries: Annotated[int, env("SHOP_TRIES", "How often.", ge=1, le=9)] = 4
    wait: Annotated[Seconds, env("SHOP_WAIT", "How long.")] = Seconds(30.0)
    mode: Annotated[Literal["fast", "slow"], env("SHOP_MODE", "How.")] = "slow"
    names: Annotated[tuple[str, ...], env("SHOP_NAMES", "Whose.")] = ()
    bare: Annotated[bool, env("PLAIN_SWITCH", "A name without the prefix.")] = False


def given(**environ: str) -> Own:
    return load_own(Own, ("SHOP_",), environ={"SHOP_URL": "u", "PATH": "/bin", **environ}).settings


def refusal(**environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        given(**environ)
    return str(caught.value)


def test_each_field_is_read_from_its_own_variable() -> None:
    assert given() == Own(url="u")
    assert given(
        SHOP_TRIES="9",
        SHOP_WAIT="1m30s",
        SHOP_MODE="fast",
        SHOP_NAMES='["ann", "bob"]',
        PLAIN_SWITCH="true",
    ) == Own(url="u", tries=9, wait=Seconds(90.0), mode="fast", names=("ann", "bob"), bare=True)


def test_any_may_be_given_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    assert given(SHOP_SECRET_FILE=str(tmp_path / "secret")).secret == "s3cret"
    both = refusal(SHOP_SECRET_FILE=str(tmp_path / "secret"), SHOP_SECRET="x")
    assert both == "SHOP_SECRET_FILE: is given beside SHOP_SECRET; give one of them"


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"SHOP_TRIES": "0"}, "SHOP_TRIES: Expected `int` >= 1; write a value such as "),
        ({"SHOP_TRIES": "many"}, "SHOP_TRIES: Expected `int`"),
        ({"SHOP_WAIT": "banana"}, "SHOP_WAIT: 'banana' is not a duration"),
        ({"SHOP_MODE": "medium"}, "SHOP_MODE: Invalid enum value 'medium'; use one of "),
        ({"SHOP_NAMES": "[1]"}, "SHOP_NAMES: Expected `str`"),
        ({"SHOP_TRIES": ""}, "SHOP_TRIES: is empty"),
        ({"SHOP_TRYS": "3"}, "SHOP_TRYS: there is no such setting; known: SHOP_URL, SHOP_SECRET"),
        ({"SHOP_TRYS_FILE": "3"}, "SHOP_TRYS_FILE: there is no such setting"),
    ],
)
def test_a_wrong_one_is_named(environ: dict[str, str], message: str) -> None:
    assert refusal(**environ).startswith(message)


def test_what_is_required_is_demanded_of_programs_that_work() -> None:
    with pytest.raises(SettingsError, match="SHOP_URL: is required: Where the shop is"):
        load_own(Own, environ={})
    assert load_own(Own, environ={}, demand=False).settings == Own()


def test_secrets_are_not_shown() -> None:
    own = load_own(Own, environ={"SHOP_URL": "u", "SHOP_SECRET": "s3cret"})
    rows = shown_own(own.settings, own.origins)
    assert rows[:3] == [
        ("SHOP_URL", "u", "SHOP_URL"),
        ("SHOP_SECRET", "***", "SHOP_SECRET"),
        ("SHOP_TRIES", "4", "default"),
    ]


def test_a_secret_is_left_out_of_every_text_that_is_kept() -> None:
    given(SHOP_SECRET="s3cret-value")
    assert redact("the shop said: s3cret-value is wrong") == "the shop said: [redacted] is wrong"
