"""Which parts of Jinja2 a mail template may use, checked when it is loaded.

A closed list, not a list of dangers: no macros, imports, assignments to attributes or calls of
anything but a few methods, so that every rendering ends and sees nothing but its data.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from homing.content.templates.filters import (
    ALLOWED_FILTERS,
    ALLOWED_TESTS,
    FOR_CONCATENATION,
    FOR_LITERALS,
    FOR_LOOPS,
)

_ALLOWED: frozenset[type[nodes.Node]] = frozenset(
    (
        nodes.Add, nodes.And, nodes.Assign, nodes.Block, nodes.Call, nodes.Compare, nodes.Concat,
        nodes.CondExpr, nodes.Const, nodes.Dict, nodes.Div, nodes.Extends, nodes.Filter,
        nodes.FloorDiv, nodes.For, nodes.Getattr, nodes.Getitem, nodes.If, nodes.Include,
        nodes.Keyword, nodes.List, nodes.Mod, nodes.Mul, nodes.Name, nodes.Neg, nodes.Not,
        nodes.Operand, nodes.Or, nodes.Output, nodes.Pair, nodes.Pos, nodes.Slice, nodes.Sub,
        nodes.Template, nodes.TemplateData, nodes.Test, nodes.Tuple,
    )
)  # fmt: skip
# Words for which Jinja has a meaning of its own.
_RESERVED = frozenset(("caller", "kwargs", "self", "super", "varargs"))
# Python compiles 20 loops and 100 parentheses within one another; each of ours makes several.
MAX_LOOPS = 10
MAX_DEPTH = 40


class NotInLanguage(Exception):
    """The template uses something that mail templates do not have.

    `path` is the file, where it is not the one that is being loaded.
    """

    def __init__(self, problem: str, line: int, path: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.path = path


def names_in(tree: nodes.Template) -> frozenset[str]:
    """The names of variables and attributes that the template uses."""
    return frozenset(name for node in tree.find_all(nodes.Node) for name in _names_in(node))


def check(tree: nodes.Template) -> None:
    """Refuse what is not in the language."""
    waiting: list[tuple[nodes.Node, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise NotInLanguage("is nested too deeply", node.lineno)
        if type(node) not in _ALLOWED:
            raise NotInLanguage(f"{type(node).__name__} is not part of mail templates", node.lineno)
        _check_details(node)
        waiting.extend((child, depth + 1) for child in node.iter_child_nodes())


def check_loops(tree: nodes.Template, files: Mapping[nodes.Node, str]) -> None:
    """Refuse too many loops within one another, also where they come from several files."""
    waiting: list[tuple[nodes.Node, int, str]] = [(tree, 0, "")]
    while waiting:
        node, loops, path = waiting.pop()
        if isinstance(node, nodes.For):
            loops += 1
            if loops > MAX_LOOPS:
                problem = f"has more than {MAX_LOOPS} loops within one another"
                raise NotInLanguage(problem, node.lineno, path)
        path = files.get(node, path)
        waiting.extend((child, loops, path) for child in node.iter_child_nodes())


def _check_details(node: nodes.Node) -> None:
    if isinstance(node, nodes.Filter) and (
        node.name not in ALLOWED_FILTERS or node.name.startswith("_")
    ):
        raise NotInLanguage(f"there is no filter {node.name!r}", node.lineno)
    if isinstance(node, nodes.Test) and node.name not in ALLOWED_TESTS:
        raise NotInLanguage(f"there is no test {node.name!r}", node.lineno)
    if isinstance(node, nodes.Filter | nodes.Test | nodes.Call):
        _check_arguments(node)
    if isinstance(node, nodes.For) and node.recursive:
        raise NotInLanguage("loops cannot be recursive", node.lineno)
    if isinstance(node, nodes.Const) and isinstance(node.value, float) and not isfinite(node.value):
        raise NotInLanguage("has a number that is too large", node.lineno)
    if isinstance(node, nodes.Include | nodes.Extends) and not _names_a_file(node):
        problem = "a layout or included file is named by a text, without options"
        raise NotInLanguage(problem, node.lineno)
    for name in _names_in(node):
        if name.startswith("_") or name in _RESERVED:
            raise NotInLanguage(f"the name {name!r} is reserved", node.lineno)


def _check_arguments(node: nodes.Filter | nodes.Test | nodes.Call) -> None:
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        raise NotInLanguage("arguments cannot be unpacked with * or **", node.lineno)
    given = [keyword.key for keyword in node.kwargs]
    if len(set(given)) < len(given):
        raise NotInLanguage("an argument is given twice", node.lineno)
    if isinstance(node, nodes.Call) and not _is_method_or_range(node.node):
        raise NotInLanguage("only methods and range() can be called", node.lineno)


def _is_method_or_range(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Name):
        return node.name == "range"
    return isinstance(node, nodes.Getattr)


def _names_a_file(node: nodes.Include | nodes.Extends) -> bool:
    if isinstance(node, nodes.Include) and (node.ignore_missing or not node.with_context):
        return False
    return isinstance(node.template, nodes.Const) and isinstance(node.template.value, str)


def _names_in(node: nodes.Node) -> tuple[str, ...]:
    if isinstance(node, nodes.Name):
        return (node.name,)
    if isinstance(node, nodes.Getattr):
        return (node.attr,)
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        return (node.arg.value,) if isinstance(node.arg.value, str) else ()
    return ()


class Metering(NodeTransformer):
    """Passes loops, literals and `~` through filters of ours, which limit their cost."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - Jinja names the method
        self.generic_visit(node)
        node.iter = through(node.iter, FOR_LOOPS)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - as above
        self.generic_visit(node)
        return through(nodes.List(node.nodes, lineno=node.lineno), FOR_CONCATENATION)

    def visit_List(self, node: nodes.List | nodes.Dict) -> nodes.Node:  # noqa: N802 - as above
        self.generic_visit(node)
        return through(node, FOR_LITERALS)

    visit_Dict = visit_List  # noqa: N815 - as above

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802 - as above
        self.generic_visit(node)
        return through(node, FOR_LITERALS) if node.ctx == "load" else node


def through(node: nodes.Node, name: str) -> nodes.Expr:
    """The value of an expression, passed through a filter."""
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
