"""The filters and tests that a template may use. There are no others.

What could grow, take long, reach into objects or differ between two runs is left out or bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from jinja2 import Undefined, UndefinedError, pass_context
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.tests import TESTS

from homing.content.templates import css, links
from homing.content.templates.budget import Budget, MeteredLoop, TooLarge

FOR_LOOPS = "__for"
FOR_CONCATENATION = "__concatenate"
FOR_LITERALS = "__flat"
FOR_LINKS = "__link"
FOR_HOSTS = "__host"
FOR_PATHS = "__path"
FOR_QUERIES = "__query"
FOR_CSS = "__css"

# They look at their argument alone and make nothing longer than a few times its length.
_AS_JINJA_HAS_THEM = (
    "abs", "capitalize", "count", "d", "default", "float", "int", "items", "length", "list",
    "lower", "reverse", "title", "trim", "upper",
)  # fmt: skip
_TEST_NAMES = (
    "!=", "<", "<=", "==", ">", ">=", "boolean", "defined", "divisibleby", "eq", "even", "false",
    "float", "ge", "gt", "in", "integer", "iterable", "le", "lt", "mapping", "ne", "none",
    "number", "odd", "sequence", "string", "true", "undefined",
)  # fmt: skip

ALLOWED_TESTS: dict[str, Any] = {name: TESTS[name] for name in _TEST_NAMES}

_FORMAT = re.compile(r"(?:[^%]|%%|%[-+ ]?[0-9]{0,2}(?:\.[0-9])?[sdifgxX])*", re.DOTALL)


class MeteredContext(Context):
    """The variables of one rendering, and what it may still cost."""

    budget: Budget


def word(value: Any) -> Any:
    """A value that can be shown as it is: text, a number, true or false.

    A null would read "None"; a list or object would read like Python, and one that holds another
    many times over would never end.
    """
    if value is None:
        raise UndefinedError("")
    if isinstance(value, str | int | float | Undefined):
        return value
    raise TypeError("a list or object cannot be shown as a whole")


def printf(pattern: str, *values: Any) -> str:
    """`%` formatting without the widths that make a short template a long string."""
    if not _FORMAT.fullmatch(pattern):
        raise ValueError("a format may have two digits of width and one of precision")
    return pattern % tuple(word(value) for value in values)


def _flat(literal: Any) -> Any:
    """Lists and objects written in a template hold words alone, so that none grows by nesting."""
    for value in literal.values() if isinstance(literal, dict) else literal:
        if value is not None:
            word(value)
    return literal


def _string(value: Any) -> str:
    return value if isinstance(value, links.PercentEncoded) else str(word(value))


def _of_text(escape: Callable[[str], str]) -> Callable[[Any], str]:
    return lambda value: escape(_string(value))


def _urlencode(value: Any) -> links.PercentEncoded:
    return links.PercentEncoded(FILTERS["urlencode"](value))


def _first(values: Iterable[Any]) -> Any:
    for value in values:
        return value
    raise UndefinedError("")


def _last(values: Any) -> Any:
    return _first(reversed(values))


def _round(value: float, digits: int = 0) -> float:
    if abs(digits) > 15:
        raise ValueError("too many digits")
    return round(float(value), digits)


def _truncate(text: str, length: int = 255, end: str = "…") -> str:
    return text if len(text) <= length else text[: max(length - len(end), 0)].rstrip() + end


def _unique(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _smallest(values: Iterable[Any]) -> Any:
    return min(values)


def _largest(values: Iterable[Any]) -> Any:
    return max(values)


def _sort(values: Iterable[Any], *, reverse: bool = False) -> list[Any]:
    return sorted(values, reverse=reverse)


_PLAIN: dict[str, Callable[..., Any]] = {
    **{name: FILTERS[name] for name in _AS_JINJA_HAS_THEM},
    "first": _first,
    "format": printf,
    "last": _last,
    "max": _largest,
    "min": _smallest,
    "round": _round,
    "sort": _sort,
    "string": _string,
    "truncate": _truncate,
    "unique": _unique,
    "urlencode": _urlencode,
    FOR_LITERALS: _flat,
    FOR_LINKS: _of_text(links.whole),
    FOR_HOSTS: _of_text(links.host),
    FOR_PATHS: _of_text(links.path),
    FOR_QUERIES: _of_text(links.query),
    FOR_CSS: _of_text(css.escape),
}


def _metered(function: Callable[..., Any]) -> Callable[..., Any]:
    # Taking the context also keeps Jinja from calling it when it compiles.
    @pass_context
    def call(context: MeteredContext, value: Any, *args: Any, **options: Any) -> Any:
        return context.budget.charge(function(value, *args, **options))

    return call


@pass_context
def _loop(context: MeteredContext, items: Any) -> MeteredLoop:
    if isinstance(items, Undefined):
        iter(items)  # raises, naming the variable
    return MeteredLoop(items, context.budget)


@pass_context
def concatenate(context: MeteredContext, values: Iterable[Any], separator: str = "") -> str:
    """`~` and `join`: stops while it gathers, not when the string is made."""
    budget = context.budget
    parts: list[str] = []
    size = 0
    for value in values:
        budget.step()
        parts.append(_string(value))
        size += len(parts[-1]) + len(separator)
        if size > budget.max_chars:
            raise TooLarge
    budget.room_for(size)
    return separator.join(parts)


@pass_context
def _replace(context: MeteredContext, text: str, old: str, new: str) -> str:
    text = _string(text)
    context.budget.room_for(len(text) + text.count(old) * len(new))
    return str(context.budget.charge(text.replace(old, new)))


@pass_context
def _indent(context: MeteredContext, text: str, width: int = 4) -> str:
    if not 0 <= width <= 40:
        raise ValueError("too wide")
    return _replace(context, text, "\n", "\n" + " " * width)


ALLOWED_FILTERS: dict[str, Callable[..., Any]] = {
    **{name: _metered(function) for name, function in _PLAIN.items()},
    "indent": _indent,
    "join": concatenate,
    "replace": _replace,
    FOR_CONCATENATION: concatenate,
    FOR_LOOPS: _loop,
}
