"""Reads a folder of templates. Homing refuses to start if one has an error, and names its place.

`_shared` holds what several templates use: layouts and parts of them, as `NAME.html.tmpl` and
`NAME.text.tmpl`. A file of the same name in `_shared/LOCALE` takes its place in that locale.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jinja2
from msgspec import Struct

from homing.content.locales import canonical_locale
from homing.content.templates.environment import TemplateEnvironment
from homing.content.templates.language import NotInLanguage, names_in
from homing.content.templates.layouts import File
from homing.domain.errors import InvalidRequest, SettingsError

MAX_SOURCE_BYTES = 256 * 1024
_SUBJECT, _TEXT, _HTML = "subject.tmpl", "text.tmpl", "html.tmpl"
_SHARED = "_shared"
_TEMPLATE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHARED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.(html|text)\.tmpl")


class Part(Struct, frozen=True):
    """One file with all that it uses, compiled, and the names of its variables."""

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
        self._environments = {
            "text": TemplateEnvironment(html=False),
            "html": TemplateEnvironment(html=True),
        }
        # By locale (none for all locales) and name.
        self._shared: dict[tuple[str, str], Path] = {}

    def load(self) -> dict[tuple[str, str], Entry]:
        entries: dict[tuple[str, str], Entry] = {}
        if (self._folder / _SHARED).is_dir():
            self._find_shared()
        for home in self._inside(self._folder):
            if not home.is_dir() or home.name == _SHARED:
                continue  # a README beside the templates is allowed
            if not _TEMPLATE_ID.fullmatch(home.name):
                raise self._error(home, "is not a template's name")
            for place in self._inside(home):
                key = (home.name, self._locale(place))
                if key in entries:
                    raise self._error(place, f"is there twice: two folders mean {key[1]}")
                entries[key] = self._entry(place, key[1])
        return entries

    def _find_shared(self) -> None:
        for place in self._inside(self._folder / _SHARED):
            files = self._inside(place) if place.is_dir() else [place]
            for path in files:
                name = _SHARED_NAME.fullmatch(path.name)
                if name is None:
                    raise self._error(path, "must be named NAME.html.tmpl or NAME.text.tmpl")
                key = (self._locale(place) if place.is_dir() else "", path.name)
                if key in self._shared:
                    raise self._error(path, f"is there twice: two folders mean {key[0]}")
                self._shared[key] = path
                with self._named_errors(path):
                    self._read(path, name[1])

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

    def _entry(self, place: Path, locale: str) -> Entry:
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
            subject=self._part(files[_SUBJECT], "text", locale),
            text=self._part(files[_TEXT], "text", locale),
            html=None if html is None else self._part(html, "html", locale),
        )

    def _part(self, path: Path, kind: str, locale: str) -> Part:
        names: set[str] = set()

        def find(name: str) -> File:
            found = self._shared.get((locale, name), self._shared.get(("", name)))
            if found is None or not name.endswith(f".{kind}.tmpl"):
                raise NotInLanguage(f"there is no {_SHARED}/{name} for {kind}", 0)
            file = self._read(found, kind)
            names.update(names_in(file.tree))
            return file

        with self._named_errors(path):
            file = self._read(path, kind)
            names.update(names_in(file.tree))
            template = self._environments[kind].load(file, find)
        return Part(file.path, template, frozenset(names))

    def _read(self, path: Path, kind: str) -> File:
        source = self._source(path)
        if path.name == _SUBJECT:
            source = source.strip()
        shown = path.relative_to(self._folder).as_posix()
        return self._environments[kind].read(source, shown)

    @contextmanager
    def _named_errors(self, path: Path) -> Iterator[None]:
        try:
            yield
        except NotInLanguage as error:
            place = self._folder / error.path if error.path else path
            raise self._error(place, error.problem, error.line) from error

    def _source(self, path: Path) -> str:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise self._error(path, f"cannot be read ({error.strerror})") from error
        if len(data) > MAX_SOURCE_BYTES:
            raise self._error(path, f"is larger than {MAX_SOURCE_BYTES:,} bytes")
        try:
            source = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self._error(path, "is not UTF-8") from error
        if "\0" in source:
            line = source.partition("\0")[0].count("\n") + 1
            raise self._error(path, "holds the control character U+0000", line)
        return source

    def _error(self, path: Path, problem: str, line: int | None = None) -> SettingsError:
        shown = path.relative_to(self._folder).as_posix()
        place = shown if line is None else f"{shown}:{line}"
        return SettingsError(self._setting, f"{place}: {problem}")
