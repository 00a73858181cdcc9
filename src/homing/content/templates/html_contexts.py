"""Where in the HTML a variable is, and so whether escaping makes it harmless there.

Jinja escapes `& < > " '`, which is enough between tags and inside quotes. In a script, a style, a
comment, a tag's or attribute's name, or without quotes it is not: a variable there is refused
when the template is loaded. A link's scheme is checked when it is rendered.
"""

from __future__ import annotations

from typing import NamedTuple

from jinja2 import nodes

from homing.content.templates.filters import FOR_URLS, is_safe_url
from homing.content.templates.language import NotInLanguage, through

_SPACE = " \t\r\n\f"
_RAW_TAGS = frozenset(("script", "style", "xmp", "iframe", "noembed", "noframes", "plaintext"))
_TEXT_TAGS = frozenset(("title", "textarea"))
_URL_ATTRIBUTES = frozenset(
    ("action", "background", "cite", "data", "formaction", "href", "longdesc", "poster", "src")
)
_CODE_ATTRIBUTES = frozenset(("style", "srcdoc", "srcset", "ping", "content", "http-equiv"))


# Stands in a link for what is not known before it is rendered.
_UNKNOWN = "{}"


class Place(NamedTuple):
    """`name` is the tag, attribute or end marker being read, `value` a link's text so far."""

    mode: str = "text"
    tag: str = ""
    name: str = ""
    value: str = ""


def guard(body: list[nodes.Node], place: Place = Place()) -> Place:  # noqa: B008 - it is frozen
    """Walk the template in the order of its output; pass links through the URL filter."""
    for node in body:
        if isinstance(node, nodes.Output):
            place = _guard_output(node, place)
        elif isinstance(node, nodes.If):
            branches = [node.body, *(branch.body for branch in node.elif_), node.else_]
            place = _joined([guard(branch, place) for branch in branches], node)
        elif isinstance(node, nodes.For):
            place = _joined([place, guard(node.body, place), guard(node.else_, place)], node)
    return place


def _joined(ends: list[Place], node: nodes.Node) -> Place:
    if any(end[:3] != ends[0][:3] for end in ends):
        problem = "its branches end in different places of the HTML (a tag or quote left open)"
        raise NotInLanguage(problem, node.lineno)
    alike = all(end.value == ends[0].value for end in ends)
    return ends[0] if alike else ends[0]._replace(value=_UNKNOWN)


def _guard_output(node: nodes.Output, place: Place) -> Place:
    for index, child in enumerate(node.nodes):
        if isinstance(child, nodes.TemplateData):
            place = _read(child.data, place)
            continue
        _refuse_dangerous(place, child.lineno)
        if place.mode == "text_tag":
            place = place._replace(name="")
        elif place.name in _URL_ATTRIBUTES:
            node.nodes[index] = _guard_url(child, place)
            place = place._replace(value=place.value + _UNKNOWN)
    return place


def _refuse_dangerous(place: Place, line: int) -> None:
    if place.mode in ("text", "text_tag"):
        return
    if place.mode not in ("double", "single"):
        where = f"inside <{place.tag}>" if place.mode == "raw" else "here"
        raise NotInLanguage(
            f"a variable cannot be used {where}: only between tags or inside a quoted attribute",
            line,
        )
    if place.name in _CODE_ATTRIBUTES or place.name.startswith("on"):
        raise NotInLanguage(f"a variable cannot be used in the attribute {place.name}", line)


def _guard_url(child: nodes.Expr, place: Place) -> nodes.Expr:
    if not place.value.strip():
        return through(child, FOR_URLS)
    # With a fixed beginning such as https://example.org/?id= no value can change the scheme.
    if not any(end in place.value for end in ":/?#") or "&" in place.value.partition(":")[0]:
        raise NotInLanguage("a link needs a fixed beginning, or one variable alone", child.lineno)
    if not is_safe_url(place.value):
        raise NotInLanguage("a link with a variable needs a harmless scheme", child.lineno)
    return child


def _read(data: str, place: Place) -> Place:
    for character in data:
        place = _READERS[place.mode](place, character)
    return place


def _read_text(place: Place, c: str) -> Place:
    return Place("open") if c == "<" else place


def _read_open(place: Place, c: str) -> Place:
    """After `<`: a tag's name, a comment, or a mere sign."""
    if not place.name and not (c.isalpha() or c in "/!?"):
        return _read_text(Place(), c)
    if c == ">":
        return _after_tag(place.name.lower())
    if c in _SPACE or (c == "/" and place.name):
        return Place("tag", place.name.lower())
    if place.name + c == "!--":
        return Place("comment", name="--")  # as HTML has it, <!--> is a whole comment
    return place._replace(name=place.name + c)


def _read_tag(place: Place, c: str) -> Place:
    if c == ">":
        return _after_tag(place.tag)
    if c in _SPACE or c == "/":
        return Place("tag", place.tag)
    return Place("attribute", place.tag, c.lower())


def _read_attribute(place: Place, c: str) -> Place:
    if c == "=":
        return place._replace(mode="before_value")
    if c in _SPACE:
        return place._replace(mode="after_attribute")
    return _read_tag(place, c) if c in ">/" else place._replace(name=place.name + c.lower())


def _read_after_attribute(place: Place, c: str) -> Place:
    if c in _SPACE:
        return place
    return place._replace(mode="before_value") if c == "=" else _read_tag(place, c)


def _read_before_value(place: Place, c: str) -> Place:
    if c in _SPACE:
        return place
    if c in "\"'":
        return place._replace(mode="double" if c == '"' else "single")
    return _after_tag(place.tag) if c == ">" else place._replace(mode="unquoted")


def _read_quoted(place: Place, c: str) -> Place:
    if c == ('"' if place.mode == "double" else "'"):
        return Place("tag", place.tag)
    return place._replace(value=place.value + c) if place.name in _URL_ATTRIBUTES else place


def _read_unquoted(place: Place, c: str) -> Place:
    return _read_tag(place, c) if c in _SPACE or c == ">" else place


def _read_raw(place: Place, c: str) -> Place:
    """Inside <script> and the like: only its own end tag ends it."""
    if place.name == f"</{place.tag}" and (c in _SPACE or c in "/>"):
        return _read_tag(Place("tag", place.name[1:]), c)
    marker = place.name + c.lower()
    if not f"</{place.tag}".startswith(marker):
        marker = "<" if c == "<" else ""
    return place._replace(name=marker)


def _read_comment(place: Place, c: str) -> Place:
    if place.name == "--" and c in "->":
        return place if c == "-" else Place()
    return place._replace(name=place.name + c if c == "-" else "")


def _after_tag(tag: str) -> Place:
    if tag in _RAW_TAGS:
        return Place("raw", tag)
    return Place("text_tag", tag) if tag in _TEXT_TAGS else Place()


_READERS = {
    "text": _read_text,
    "open": _read_open,
    "tag": _read_tag,
    "attribute": _read_attribute,
    "after_attribute": _read_after_attribute,
    "before_value": _read_before_value,
    "double": _read_quoted,
    "single": _read_quoted,
    "unquoted": _read_unquoted,
    "raw": _read_raw,
    "text_tag": _read_raw,
    "comment": _read_comment,
}
