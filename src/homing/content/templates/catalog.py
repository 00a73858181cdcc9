"""The template catalog: read whole at the start, the same until the process ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import UndefinedError
from msgspec import Struct
from msgspec.structs import replace

from homing.content.limits import DEFAULT
from homing.content.locales import DEFAULT_LOCALE, canonical_locale
from homing.content.templates.budget import Bounds, Budget, TooLarge, TooSlow
from homing.content.templates.filters import MeteredContext
from homing.content.templates.loading import Entry, Part, load_entries
from homing.content.validation import check_subject
from homing.domain.errors import InvalidRequest, SettingsError
from homing.domain.failure import Failure
from homing.domain.message import Email

# Stable words: operators filter by them and programs act on them.
NOT_FOUND = "template_not_found"
VARIABLE_MISSING = "template_variable_missing"
SUBJECT_INVALID = "template_subject_invalid"
TOO_LARGE = "template_too_large"
TOO_SLOW = "template_too_slow"
FAILED = "template_failed"


class Rendered(Struct, frozen=True, omit_defaults=True):
    """What a template made, once; every attempt uses it. `locale` is the one that was found."""

    subject: str
    text: str
    html: str | None = None
    locale: str = DEFAULT_LOCALE
    locale_fallback_used: bool = False

    def into(self, email: Email) -> Email:
        """The e-mail as if it had been written so: ready for `mime.build`."""
        return replace(
            email,
            subject=self.subject,
            text=self.text,
            html=self.html,
            template_id=None,
            locale=None,
            variables={},
        )


class Catalog:
    """Templates by id and locale. Loading refuses what is broken; rendering only returns values."""

    def __init__(
        self,
        entries: Mapping[tuple[str, str], Entry],
        bounds: Bounds = Bounds(),  # noqa: B008 - it is frozen
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._entries = dict(entries)
        self._bounds = bounds
        self._cpu_s = cpu_s

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        required: Iterable[str] = (),
        setting: str = "templates",
        bounds: Bounds = Bounds(),  # noqa: B008 - it is frozen
    ) -> Catalog:
        """Read `<template_id>/<locale>/subject.tmpl|text.tmpl|html.tmpl`; the HTML may be absent.
        `_shared` has layouts and parts of several templates.

        SettingsError names the file that is broken or missing. Each of `required` must be there
        in the fallback locale.
        """
        entries = load_entries(Path(folder), setting)
        for template_id in required:
            if (template_id, DEFAULT_LOCALE) not in entries:
                place = f"{template_id}/{DEFAULT_LOCALE}"
                raise SettingsError(setting, f"{place}/subject.tmpl and text.tmpl are required")
        return cls(entries, bounds)

    def locales(self) -> dict[str, list[str]]:
        """Which locales each template has."""
        found: dict[str, list[str]] = {}
        for template_id, locale in sorted(self._entries):
            found.setdefault(template_id, []).append(locale)
        return found

    def render(
        self, template_id: str, locale: str | None, variables: Mapping[str, Any]
    ) -> Rendered | Failure:
        """The exact locale, or else `en`. The same input gives the same result."""
        try:
            wanted = DEFAULT_LOCALE if locale is None else canonical_locale(locale)
        except InvalidRequest as refusal:
            return Failure(NOT_FOUND, "reject", detail=str(refusal))
        for found in dict.fromkeys((wanted, DEFAULT_LOCALE)):
            if entry := self._entries.get((template_id, found)):
                return self._render(entry, found, variables, locale_fallback_used=found != wanted)
        return Failure(NOT_FOUND, "reject", detail=f"neither in {wanted} nor in {DEFAULT_LOCALE}")

    def _render(
        self,
        entry: Entry,
        locale: str,
        variables: Mapping[str, Any],
        *,
        locale_fallback_used: bool,
    ) -> Rendered | Failure:
        budget = Budget(self._bounds, self._cpu_s)
        subject = _render_part(entry.subject, variables, budget)
        if isinstance(subject, Failure):
            return subject
        text = _render_part(entry.text, variables, budget)
        if isinstance(text, Failure):
            return text
        html = None if entry.html is None else _render_part(entry.html, variables, budget)
        if isinstance(html, Failure):
            return html
        try:
            check_subject(subject, "subject", DEFAULT)
        except InvalidRequest as refusal:
            return _failure(SUBJECT_INVALID, refusal.problem, entry.subject)
        return Rendered(subject, text, html, locale, locale_fallback_used)


def _render_part(part: Part, variables: Mapping[str, Any], budget: Budget) -> str | Failure:
    """The text of an error is not used: it may quote a variable, which may be a login code."""
    context = part.template.new_context(dict(variables))
    assert isinstance(context, MeteredContext)  # noqa: S101 - its environment makes no other
    context.budget = budget
    pieces: list[str] = []
    try:
        for piece in part.template.root_render_func(context):
            budget.output(piece)
            pieces.append(piece)
    except UndefinedError as error:
        known = error.message in part.names
        name = f"the variable {error.message}" if known else "a variable"
        return _failure(VARIABLE_MISSING, f"{name} is missing", part)
    except TooLarge:
        return _failure(TOO_LARGE, "makes too much", part)
    except TooSlow:
        return _failure(TOO_SLOW, "takes too long", part)
    except MemoryError:
        raise
    except Exception as error:  # a template can raise any exception
        return _failure(FAILED, f"fails with {type(error).__name__}", part)
    return "".join(pieces)


def _failure(error_class: str, problem: str, part: Part) -> Failure:
    return Failure(error_class, "reject", detail=f"{part.path}: {problem}")
