"""Which parts of Jinja2 a mail template may use, checked when it is loaded.

A closed list, not a list of dangers: no macros, imports, blocks, assignments to attributes or
calls of anything but a few methods, so that every rendering ends and sees nothing but its data.
"""

from __future__ import annotations

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
        nodes.Add, nodes.And, nodes.Assign, nodes.Call, nodes.Compare, nodes.Concat,
        nodes.CondExpr, nodes.Const, nodes.Dict, nodes.Div, nodes.Filter, nodes.FloorDiv,
        nodes.For, nodes.Getattr, nodes.Getitem, nodes.If, nodes.Keyword, nodes.List, nodes.Mod,
        nodes.Mul, nodes.Name, nodes.Neg, nodes.Not, nodes.Operand, nodes.Or, nodes.Output,
        nodes.Pair, nodes.Pos, nodes.Slice, nodes.Sub, nodes.Template, nodes.TemplateData,
        nodes.Test, nodes.Tuple,
    )
)  # fmt: skip
# Words for which Jinja has a meaning of its own.
_RESERVED = frozenset(("caller", "kwargs", "self", "super", "varargs"))


class NotInLanguage(Exception):
    """The template uses something that mail templates do not have."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


def check(tree: nodes.Template) -> frozenset[str]:
    """Refuse what is not in the language; returns the names that the template uses."""
    names: set[str] = set()
    waiting: list[nodes.Node] = [tree]
    while waiting:
        node = waiting.pop()
        if type(node) not in _ALLOWED:
            raise NotInLanguage(f"{type(node).__name__} is not part of mail templates", node.lineno)
        _check_details(node)
        names.update(_names_in(node))
        waiting.extend(node.iter_child_nodes())
    return frozenset(names)


def _check_details(node: nodes.Node) -> None:
    if isinstance(node, nodes.Filter) and (
        node.name not in ALLOWED_FILTERS or node.name.startswith("_")
    ):
        raise NotInLanguage(f"there is no filter {node.name!r}", node.lineno)
    if isinstance(node, nodes.Test) and node.name not in ALLOWED_TESTS:
        raise NotInLanguage(f"there is no test {node.name!r}", node.lineno)
    if isinstance(node, nodes.Filter | nodes.Test | nodes.Call) and (
        node.dyn_args is not None or node.dyn_kwargs is not None
    ):
        raise NotInLanguage("arguments cannot be unpacked with * or **", node.lineno)
    if isinstance(node, nodes.For) and node.recursive:
        raise NotInLanguage("loops cannot be recursive", node.lineno)
    if isinstance(node, nodes.Call) and not _is_method_or_range(node.node):
        raise NotInLanguage("only methods and range() can be called", node.lineno)
    for name in _names_in(node):
        if name.startswith("_") or name in _RESERVED:
            raise NotInLanguage(f"the name {name!r} is reserved", node.lineno)


def _is_method_or_range(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Name):
        return node.name == "range"
    return isinstance(node, nodes.Getattr)


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
