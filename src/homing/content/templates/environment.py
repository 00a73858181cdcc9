"""Jinja2 as mail templates see it: sandboxed, immutable, strict, and metered."""

from __future__ import annotations

from collections.abc import Mapping
from types import BuiltinMethodType, MethodType
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, StrictUndefined, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from homing.content.templates import html_contexts, language
from homing.content.templates.budget import Budget
from homing.content.templates.filters import (
    ALLOWED_FILTERS,
    ALLOWED_TESTS,
    MeteredContext,
    printf,
    word,
)
from homing.content.templates.language import NotInLanguage
from homing.content.templates.layouts import File, Find, put_together
from homing.content.templates.links import PercentEncoded

MAX_RANGE = 10_000
MAX_NUMBER = 2**63

_OF_TEXTS = frozenset(
    ("capitalize", "endswith", "lower", "lstrip", "rstrip", "startswith", "strip", "title", "upper")
)
# What may be asked of a value, beside the items of a list or object.
ATTRIBUTES: Mapping[type, frozenset[str]] = {
    str: _OF_TEXTS,
    PercentEncoded: _OF_TEXTS,
    dict: frozenset(("get", "items", "keys", "values")),
    LoopContext: frozenset(
        ("cycle", "first", "index", "index0", "last", "length", "nextitem", "previtem", "revindex",
         "revindex0")
    ),
}  # fmt: skip


class Missing(StrictUndefined):
    """Its error contains only the variable's name, never a value."""

    @property
    def _undefined_message(self) -> str:
        return str(self._undefined_name)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """One for text, one for HTML; holds no state of any rendering."""

    context_class = MeteredContext
    intercepted_binops = frozenset(("+", "*", "%"))

    def __init__(self, *, html: bool) -> None:
        super().__init__(
            autoescape=html,
            undefined=Missing,
            finalize=word,
            optimized=False,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self.filters = dict(ALLOWED_FILTERS)
        self.tests = dict(ALLOWED_TESTS)
        self.globals = {"range": _bounded_range}
        self._html = html

    def read(self, source: str, path: str) -> File:
        """The tree of one file, made of nothing but the language; NotInLanguage names the line."""
        parser: Parser | None = None
        try:
            parser = Parser(self, source, path)
            tree = parser.parse()
            language.check(tree)
        except jinja2.TemplateSyntaxError as error:
            raise NotInLanguage(error.message or "is broken", error.lineno, path) from error
        except NotInLanguage as error:
            error.path = path
            raise
        except (RecursionError, ValueError) as error:
            # Thousands of brackets, or a number of thousands of digits.
            line = parser.stream.current.lineno if parser is not None else 1
            raise NotInLanguage("has something too long or too deep", line, path) from error
        return File(path, tree)

    def load(self, file: File, find: Find) -> jinja2.Template:
        """The compiled template, with its layout and all that it includes."""
        tree = file.tree
        files = put_together(file, find)
        language.check_loops(tree, files)
        if self._html:
            html_contexts.guard(tree.body, files)
        language.Metering().visit(tree)
        tree.set_environment(self)
        try:
            code = self.compile(tree, file.path)
        except (SyntaxError, RecursionError, ValueError, MemoryError) as error:
            raise NotInLanguage("is too complicated to be compiled", 1) from error
        return self.template_class.from_code(self, code, self.globals)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """The item first: `order.items` is the caller's data, not a method of dicts."""
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        if attribute in ATTRIBUTES.get(type(obj), ()):
            return getattr(obj, attribute)
        if isinstance(obj, Undefined):
            return getattr(obj, attribute)  # raises, naming the missing one
        return self.undefined(obj=obj, name=attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Undefined):
            return obj[argument]
        try:
            return (
                obj[argument]
                if isinstance(obj, dict | list | tuple | str)
                else self._none(argument)
            )
        except (LookupError, TypeError):
            return self._none(argument)

    def _none(self, argument: Any) -> Undefined:
        return self.undefined(name=argument if isinstance(argument, str) else None)

    def call(self, context: Context, method: Any, /, *args: Any, **options: Any) -> Any:
        if not (method is _bounded_range or _is_allowed_method(method)):
            raise SecurityError("not callable")
        # Inside a loop Jinja passes its own bookkeeping as well.
        options.pop("_loop_vars", None)
        options.pop("_block_vars", None)
        return _budget(context).charge(method(*args, **options))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = _budget(context)
        if operator == "%" and isinstance(left, str):
            return budget.charge(printf(left, *(right if isinstance(right, tuple) else (right,))))
        if operator == "*":
            return budget.charge(_product(left, right))
        if operator == "+":
            # Not for lists: they would grow by doubling.
            size = sum(len(side) for side in (word(left), word(right)) if isinstance(side, str))
            budget.room_for(size)
        budget.step()
        return self.binop_table[operator](left, right)


def _budget(context: Context) -> Budget:
    assert isinstance(context, MeteredContext)  # noqa: S101 - the environment makes no other
    return context.budget


def _bounded_range(*args: int) -> range:
    numbers = range(*args)
    if len(numbers) > MAX_RANGE:
        raise OverflowError("range is too long")
    return numbers


def _is_allowed_method(method: object) -> bool:
    if not isinstance(method, BuiltinMethodType | MethodType):
        return False
    return method.__name__ in ATTRIBUTES.get(type(method.__self__), ())


def _product(left: Any, right: Any) -> int | float:
    if not (isinstance(left, int | float) and isinstance(right, int | float)):
        raise TypeError("only numbers can be multiplied")
    product = left * right
    if abs(product) > MAX_NUMBER:
        raise OverflowError("the number is too large")
    return product
