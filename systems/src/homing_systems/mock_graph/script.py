"""Scripts of answers: words such as `503,429:120,202`, spent one by one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from email.utils import formatdate

from msgspec import Struct

from homing.domain.errors import InvalidRequest

SEND_WORDS = (
    "a status such as 202 or 503; with Retry-After in seconds as 429:120, or as a date that many"
    " seconds ahead as 429@120; cut (the connection ends before the mail is accepted); or"
    " 202-cut (it ends after that, and no answer comes)"
)
ANSWERS_OF_TOKENS = (
    "200, another status such as 401 or 503, revoked (from then on for ever), or cut"
)

_WORD = re.compile(r"(?P<status>[2-5]\d\d)(?:(?P<form>[:@])(?P<seconds>\d{1,9}))?", re.ASCII)


class Answer(Struct, frozen=True):
    """`cuts`: the connection ends, and no answer is given. `revokes`: for token answers only."""

    status: int
    retry_after_s: int | None = None
    as_date: bool = False
    cuts: bool = False
    revokes: bool = False

    @property
    def retry_after(self) -> str | None:
        if self.retry_after_s is None:
            return None
        if self.as_date:
            return formatdate(time.time() + self.retry_after_s, usegmt=True)
        return str(self.retry_after_s)


class Script:
    """A spent script gives the answer of a healthy service."""

    def __init__(self, answers: Iterable[Answer], *, when_spent: Answer) -> None:
        self._answers = list(answers)
        self._when_spent = when_spent

    def next(self) -> Answer:
        return self._answers.pop(0) if self._answers else self._when_spent


def send_script(text: str) -> Script:
    return Script((_send_answer(word) for word in _words(text)), when_spent=Answer(202))


def token_script(text: str) -> Script:
    return Script((_token_answer(word) for word in _words(text)), when_spent=Answer(200))


def recipient_scripts(given: Iterable[str]) -> dict[str, Script]:
    """Each is an address and its script: `ann@example.org=503,202`."""
    scripts = {}
    for each in given:
        address, equals, text = each.partition("=")
        if not equals or "@" not in address:
            raise InvalidRequest("recipient", f"{each!r} is not like ann@example.org=503,202")
        scripts[address.strip().lower()] = send_script(text)
    return scripts


def _words(text: str) -> list[str]:
    return [word for word in (part.strip() for part in text.split(",")) if word]


def _send_answer(word: str) -> Answer:
    if word == "cut":
        return Answer(0, cuts=True)
    if word == "202-cut":
        return Answer(202, cuts=True)
    return _status(word, "script", SEND_WORDS)


def _token_answer(word: str) -> Answer:
    if word == "cut":
        return Answer(0, cuts=True)
    if word == "revoked":
        return Answer(400, revokes=True)
    return _status(word, "token-script", ANSWERS_OF_TOKENS)


def _status(word: str, option: str, expected: str) -> Answer:
    found = _WORD.fullmatch(word)
    if found is None:
        raise InvalidRequest(option, f"{word!r} is not an answer; use {expected}")
    seconds = found["seconds"]
    return Answer(
        int(found["status"]),
        retry_after_s=None if seconds is None else int(seconds),
        as_date=found["form"] == "@",
    )
