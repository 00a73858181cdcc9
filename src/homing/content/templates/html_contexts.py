"""Whether escaping makes each variable harmless where it is in the HTML.

Jinja escapes `& < > " '`, which is enough between tags and inside quotes. In a script, a comment, a
tag's or attribute's name, or without quotes it is not: a variable there is refused when the
template is loaded. Links are checked and values in CSS are escaped when they are rendered.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import TypeAlias

from jinja2 import nodes

from homing.content.templates import css, links
from homing.content.templates.filters import FOR_CSS, FOR_HOSTS, FOR_LINKS, FOR_PATHS, FOR_QUERIES
from homing.content.templates.html_places import Place, read
from homing.content.templates.language import NotInLanguage, through

# Where the output can be: after an `if`, wherever one of its branches has ended.
Places: TypeAlias = frozenset[Place]

MAX_PLACES = 64
_LINK_FILTERS: dict[links.Part, str] = {
    "whole": FOR_LINKS,
    "host": FOR_HOSTS,
    "path": FOR_PATHS,
    "query": FOR_QUERIES,
}
_LINK_REFUSALS: dict[links.Part, str] = {
    "behind_host": "a variable in a link cannot continue the host: put a / between",
    "scheme": "a link needs a fixed beginning with a harmless scheme, or one variable alone",
}
_FILTERS = (*_LINK_FILTERS.values(), FOR_CSS)


def guard(body: list[nodes.Node], files: Mapping[nodes.Node, str]) -> None:
    """Walk the template in the order of its output; links and CSS get their filters.

    `files` names the file of each scope that came from another one.
    """
    ends = _Walk(files).through_all(body, frozenset((Place(),)))
    if len({end.mode for end in ends}) > 1:
        raise _apart(body[-1].lineno)


def _apart(line: int) -> NotInLanguage:
    return NotInLanguage(
        "its branches end in different places of the HTML (a tag or quote left open)", line
    )


class _Walk:
    def __init__(self, files: Mapping[nodes.Node, str]) -> None:
        self._files = files

    def through_all(self, body: list[nodes.Node], places: Places) -> Places:
        for node in body:
            places = self._through(node, places)
            if len(places) > MAX_PLACES:
                raise _apart(node.lineno)
        return places

    def _through(self, node: nodes.Node, places: Places) -> Places:
        if isinstance(node, nodes.Output):
            return self._output(node, places)
        if isinstance(node, nodes.If):
            branches = [node.body, *(branch.body for branch in node.elif_), node.else_]
            return frozenset[Place]().union(*(self.through_all(b, places) for b in branches))
        if isinstance(node, nodes.For):
            return self._loop(node, places)
        if isinstance(node, nodes.Scope):
            return self._scope(node, places)
        return places

    def _loop(self, node: nodes.For, places: Places) -> Places:
        """A turn begins where the loop does, or where another turn has ended."""
        starts = places
        while True:
            ends = _alike(starts | self.through_all(node.body, starts))
            if ends == starts:
                return starts | self.through_all(node.else_, places)
            starts = ends

    def _scope(self, node: nodes.Scope, places: Places) -> Places:
        try:
            return self.through_all(node.body, places)
        except NotInLanguage as error:
            error.path = error.path or self._files[node]
            raise

    def _output(self, node: nodes.Output, places: Places) -> Places:
        for index, child in enumerate(node.nodes):
            if isinstance(child, nodes.TemplateData):
                places = frozenset([_read(child, place) for place in places])
                continue
            node.nodes[index] = _guarded(child, places)
            places = frozenset(map(_after_variable, places))
        return places


def _alike(places: Places) -> Places:
    """Links that differ only in how long they are by now become one, so that a loop ends."""
    links: dict[Place, list[str]] = {}
    for place in places:
        if place.content == "url":
            links.setdefault(place._replace(value=""), []).append(place.value)
    joined = (link._replace(value=_common(values)) for link, values in links.items())
    return frozenset((*(place for place in places if place.content != "url"), *joined))


def _common(values: list[str]) -> str:
    first, last = min(values), max(values)
    if first == last:
        return first
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(a for a, _ in alike).removesuffix(links.UNKNOWN) + links.UNKNOWN


def _after_variable(place: Place) -> Place:
    if place.mode == "text_tag":
        return place._replace(name="")
    if place.content == "css":
        return place._replace(value=css.after_variable(place.value))
    return place._replace(value=place.value + links.UNKNOWN) if place.content == "url" else place


def _guarded(child: nodes.Expr, places: Places) -> nodes.Expr:
    for place in places:
        if not place.takes_variables:
            raise NotInLanguage(_refusal(place), child.lineno)
    if len({(place.mode, place.content) for place in places}) != 1:
        raise _apart(child.lineno)
    needed = {_filter_for(place, child.lineno) for place in places}
    # A loop's body is walked more than once.
    done = child.name if isinstance(child, nodes.Filter) and child.name in _FILTERS else ""
    if len(needed | {done} - {""}) > 1:
        raise NotInLanguage("its branches end in different parts of a link", child.lineno)
    [name] = needed
    return child if done or not name else through(child, name)


def _refusal(place: Place) -> str:
    if place.content == "css":
        return "a variable in CSS can only be the value of a property, outside of functions"
    if place.mode in ("double", "single"):
        return f"a variable cannot be used in the attribute {place.name}"
    where = f"inside <{place.tag}>" if place.mode == "raw" else "here"
    return f"a variable cannot be used {where}: only between tags or inside a quoted attribute"


def _filter_for(place: Place, line: int) -> str:
    if place.content != "url":
        return FOR_CSS if place.content == "css" else ""
    part = links.part_after(place.value)
    if part in _LINK_REFUSALS:
        raise NotInLanguage(_LINK_REFUSALS[part], line)
    return _LINK_FILTERS[part]


def _read(node: nodes.TemplateData, place: Place) -> Place:
    for index, character in enumerate(node.data):
        after = read(place, character)
        problem = "" if after is place else after.problem
        if place.value and after.mode != place.mode and place.runs_script:
            problem = f"the attribute {place.name} may not be a script"
        if problem:
            line = node.lineno + node.data.count("\n", 0, index)
            raise NotInLanguage(problem, line)
        place = after
    return place
