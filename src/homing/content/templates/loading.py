"""Reads a folder of templates; an error in it stops the start and names the file."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
from msgspec import Struct

from homing.content.locales import canonical_locale
from homing.content.templates.environment import TemplateEnvironment
from homing.content.templates.language import NotInLanguage
from homing.domain.errors import InvalidRequest, SettingsError

MAX_SOURCE_BYTES = 256 * 1024
_SUBJECT, _TEXT, _HTML = "subject.tmpl", "text.tmpl", "html.tmpl"
_TEMPLATE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Part(Struct, frozen=True):
    """One file, compiled, with the names that it uses."""

    path: str
    template: jinja2.Template
    names: frozenset[str]


class Entry(Struct, frozen=True):
    """One template in one locale."""

    subject: Part
    text: Part
    html: Part | None = None


def load_entries(folder: Path, setting: str) -> dict[tuple[str, str], Entry]:
    """Every template by (id, canonical locale)."""
    if not folder.is_dir():
        raise SettingsError(setting, f"{folder} is not a folder")
    return _Loader(folder, setting).load()


class _Loader:
    def __init__(self, folder: Path, setting: str) -> None:
        self._folder = folder
        self._setting = setting
        self._text = TemplateEnvironment(html=False)
        self._html = TemplateEnvironment(html=True)

    def load(self) -> dict[tuple[str, str], Entry]:
        entries: dict[tuple[str, str], Entry] = {}
        for home in self._inside(self._folder):
            if not home.is_dir():
                continue  # a README beside the templates is allowed
            if not _TEMPLATE_ID.fullmatch(home.name):
                raise self._error(home, "is not a template's name")
            for place in self._inside(home):
                key = (home.name, self._locale(place))
                if key in entries:
                    raise self._error(place, f"is there twice: two folders mean {key[1]}")
                entries[key] = self._entry(place)
        return entries

    def _inside(self, folder: Path) -> list[Path]:
        try:
            return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        except OSError as error:
            raise self._error(folder, f"cannot be read ({error.strerror})") from error

    def _locale(self, place: Path) -> str:
        if not place.is_dir():
            raise self._error(place, "is not a folder with a locale's name")
        try:
            return canonical_locale(place.name)
        except InvalidRequest as refusal:
            raise self._error(place, refusal.problem) from refusal

    def _entry(self, place: Path) -> Entry:
        files = {path.name: path for path in self._inside(place)}
        for name in (_SUBJECT, _TEXT):
            if name not in files:
                raise self._error(place / name, "is missing")
        for name, path in files.items():
            if name not in (_SUBJECT, _TEXT, _HTML):
                raise self._error(path, "is not a part of a template")
        html = files.get(_HTML)
        return Entry(
            # The line end of the file is not part of the subject; one in a value is refused.
            subject=self._part(self._text, files[_SUBJECT], strip=True),
            text=self._part(self._text, files[_TEXT]),
            html=None if html is None else self._part(self._html, html),
        )

    def _part(self, environment: TemplateEnvironment, path: Path, *, strip: bool = False) -> Part:
        source = self._source(path)
        shown = path.relative_to(self._folder).as_posix()
        try:
            template, names = environment.load(source.strip() if strip else source, shown)
        except jinja2.TemplateSyntaxError as error:
            raise self._error(path, error.message or "is broken", error.lineno) from error
        except NotInLanguage as error:
            raise self._error(path, error.problem, error.line) from error
        return Part(shown, template, names)

    def _source(self, path: Path) -> str:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise self._error(path, f"cannot be read ({error.strerror})") from error
        if len(data) > MAX_SOURCE_BYTES:
            raise self._error(path, f"is larger than {MAX_SOURCE_BYTES:,} bytes")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self._error(path, "is not UTF-8") from error

    def _error(self, path: Path, problem: str, line: int | None = None) -> SettingsError:
        shown = path.relative_to(self._folder).as_posix()
        place = shown if line is None else f"{shown}:{line}"
        return SettingsError(self._setting, f"{place}: {problem}")
