"""Layouts and includes: put together when a template is loaded, into one tree.

So every check sees the whole template in the order of its output, and rendering reads no files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from jinja2 import nodes
from jinja2.visitor import NodeTransformer
from msgspec import Struct

from homing.content.templates.language import NotInLanguage

MAX_FILES = 50


class File(Struct, frozen=True):
    """One file, parsed; `path` is how it is shown to people."""

    path: str
    tree: nodes.Template


Find: TypeAlias = Callable[[str], File]
"""The shared file of this name, parsed anew; raises NotInLanguage when there is none."""


class _Override(Struct, frozen=True):
    block: nodes.Block
    file: File


def put_together(file: File, find: Find) -> dict[nodes.Node, str]:
    """Replace `extends`, `block` and `include` by the contents that they refer to.

    Returns the path of each scope that came from another file.
    """
    whole = _Whole(file, find)
    file.tree.body = whole.body_of(file)
    whole.check_overrides()
    return whole.paths


class _Whole:
    def __init__(self, file: File, find: Find) -> None:
        self._find = find
        self._files = 1
        self._open = [file.path]
        self._overrides: dict[str, _Override] = {}
        self._used: set[str] = set()
        self.paths: dict[nodes.Node, str] = {}

    def body_of(self, file: File) -> list[nodes.Node]:
        """Of a template, or of the layout that it extends; what is set before comes first."""
        extends = next(file.tree.find_all(nodes.Extends), None)
        if extends is None:
            return self._put_in(file.tree.body, file)
        if extends is not _first(file.tree.body):
            raise NotInLanguage("extends must come first", extends.lineno, file.path)
        kept = [node for node in file.tree.body if self._keep(node, file)]
        layout = self._open_file(extends.template, extends.lineno, file)
        scope = self._scope(self.body_of(layout), extends.lineno, layout)
        self._open.pop()
        return [*self._put_in(kept, file), scope]

    def include(self, node: nodes.Include, user: File) -> nodes.Node:
        file = self._open_file(node.template, node.lineno, user)
        for other in file.tree.find_all((nodes.Extends, nodes.Block)):
            raise NotInLanguage("an included file has no layout or blocks", other.lineno, file.path)
        scope = self._scope(self._put_in(file.tree.body, file), node.lineno, file)
        self._open.pop()
        return scope

    def block(self, node: nodes.Block, file: File) -> nodes.Node:
        if node.name in self._used:
            raise NotInLanguage(f"there are two blocks {node.name!r}", node.lineno, file.path)
        self._used.add(node.name)
        chosen = self._overrides.get(node.name, _Override(node, file))
        if node.required and chosen.block is node:
            raise NotInLanguage(f"the block {node.name!r} is required", node.lineno, file.path)
        body = self._put_in(chosen.block.body, chosen.file)
        return self._scope(body, node.lineno, chosen.file)

    def check_overrides(self) -> None:
        for name, override in self._overrides.items():
            if name not in self._used:
                problem = f"the layout has no block {name!r}"
                raise NotInLanguage(problem, override.block.lineno, override.file.path)

    def _keep(self, node: nodes.Node, file: File) -> bool:
        """Of a template with a layout: what is set stays, a block goes where the layout has it."""
        if isinstance(node, nodes.Block):
            if node.name in {b.name for b in file.tree.find_all(nodes.Block) if b is not node}:
                raise NotInLanguage(f"there are two blocks {node.name!r}", node.lineno, file.path)
            self._overrides.setdefault(node.name, _Override(node, file))
        elif not isinstance(node, nodes.Assign | nodes.Extends) and not _is_space(node):
            raise NotInLanguage(
                "has no effect: a template with a layout has blocks only", node.lineno, file.path
            )
        return isinstance(node, nodes.Assign)

    def _open_file(self, name: nodes.Expr, line: int, user: File) -> File:
        assert isinstance(name, nodes.Const)  # noqa: S101 - the language has no other
        self._files += 1
        if self._files > MAX_FILES:
            raise NotInLanguage(f"is made of more than {MAX_FILES} files", line, user.path)
        try:
            file = self._find(name.value)
        except NotInLanguage as error:
            if not error.path:
                error.path, error.line = user.path, line
            raise
        if file.path in self._open:
            raise NotInLanguage(f"{name.value} uses itself", line, user.path)
        self._open.append(file.path)
        return file

    def _put_in(self, body: list[nodes.Node], file: File) -> list[nodes.Node]:
        holder = nodes.Scope(body)
        _PutIn(self, file).generic_visit(holder)
        return holder.body

    def _scope(self, body: list[nodes.Node], line: int, file: File) -> nodes.Scope:
        scope = nodes.Scope(body, lineno=line)
        self.paths[scope] = file.path
        return scope


class _PutIn(NodeTransformer):
    def __init__(self, whole: _Whole, file: File) -> None:
        self._whole = whole
        self._file = file

    def visit_Include(self, node: nodes.Include) -> nodes.Node:  # noqa: N802 - Jinja names it
        return self._whole.include(node, self._file)

    def visit_Block(self, node: nodes.Block) -> nodes.Node:  # noqa: N802 - as above
        return self._whole.block(node, self._file)


def _first(body: list[nodes.Node]) -> nodes.Node | None:
    return next((node for node in body if not _is_space(node)), None)


def _is_space(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Output) and all(
        isinstance(child, nodes.TemplateData) and not child.data.strip() for child in node.nodes
    )
