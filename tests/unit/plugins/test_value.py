"""The value itself: what an author got wrong is said when the value is made."""

from __future__ import annotations

from typing import Annotated

import pytest
from msgspec import Struct

from homing.plugins.value import NoSettings, Plugin
from homing.settings.own_names import env, own_names


class Own(Struct, frozen=True):
    url: Annotated[str, env("SMS_URL", "Where the gateway is.", required=True)] = ""
    token: Annotated[str | None, env("SMS_TOKEN", "Its key.", secret=True)] = None


class WithoutDefault(Struct, frozen=True):
    url: Annotated[str, env("SMS_URL", "Where the gateway is.")]


class WithoutName(Struct, frozen=True):
    url: str = ""


class WithOurName(Struct, frozen=True):
    url: Annotated[str, env("HOMING_SMS_URL", "Where the gateway is.")] = ""


class WithOneNameTwice(Struct, frozen=True):
    url: Annotated[str, env("SMS_URL", "Where the gateway is.")] = ""
    other: Annotated[str, env("SMS_URL", "Where the gateway is.")] = ""


def test_fields_carry_their_own_environment_names() -> None:
    names = own_names(Own)
    assert list(names) == ["SMS_URL", "SMS_TOKEN"]
    assert names["SMS_URL"].required
    assert not names["SMS_URL"].secret
    assert names["SMS_TOKEN"].secret
    assert names["SMS_TOKEN"].kind is str


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (WithoutDefault, "url has no default"),
        (WithoutName, "names no variable"),
        (WithOurName, "HOMING_ is for all plugins"),
        (WithOneNameTwice, "names two fields"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: type[Struct], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Plugin(name="sms", about="Texts.", settings=settings, routes=lambda setup: ())


@pytest.mark.parametrize("name", ["", "SMS", "s m s", "-sms", "1sms"])
def test_a_name_is_one_word_of_a_command_line(name: str) -> None:
    with pytest.raises(ValueError, match="small letters"):
        Plugin(name=name, about="Texts.", settings=NoSettings, routes=lambda setup: ())
