"""Reads HTML character by character: between tags, in a tag, in an attribute, in a script."""

from __future__ import annotations

from html import unescape
from typing import Literal, NamedTuple, TypeAlias

from homing.content.templates import css, links

_SPACE = " \t\r\n\f"
_RAW_TAGS = frozenset(("script", "style", "xmp", "iframe", "noembed", "noframes", "plaintext"))
_TEXT_TAGS = frozenset(("title", "textarea"))
_DECLARATIONS = frozenset(("!doctype", "![if", "![endif]", "?xml"))
_URL_ATTRIBUTES = frozenset(
    ("action", "archive", "background", "base", "cite", "classid", "codebase", "data", "dynsrc",
     "formaction", "href", "icon", "longdesc", "lowsrc", "manifest", "poster", "profile", "src",
     "usemap")
)  # fmt: skip
_CODE_ATTRIBUTES = frozenset(
    ("srcdoc", "srcset", "imagesrcset", "ping", "content", "http-equiv", "attributename")
)
# SVG gives an attribute, such as a link's target, the values in these.
_ANIMATIONS = frozenset(("animate", "animatecolor", "animatemotion", "animatetransform", "set"))
_ANIMATED = frozenset(("by", "from", "to", "values"))
_SCRIPTS = ("javascript:", "vbscript:")
# More of a link need not be known: what it is shows at its beginning.
_MAX_LINK_CHARS = 2000
_QUOTED = ("double", "single")
_VALUES = (*_QUOTED, "unquoted")

Content: TypeAlias = Literal["text", "url", "css", "code"]


class Place(NamedTuple):
    """`name` is the tag, attribute or end marker being read.

    `value` is what was read of a link, and in CSS the place there.
    """

    mode: str = "text"
    tag: str = ""
    name: str = ""
    value: str = ""

    @property
    def content(self) -> Content:
        """What a variable here is part of."""
        if self.mode == "raw":
            return "css" if self.tag == "style" else "code"
        if self.mode not in _VALUES:
            return "text"
        name = self.name.rpartition(":")[2]  # xlink:href is a link too
        if name.startswith("on") or name in _CODE_ATTRIBUTES or self._is_animated(name):
            return "code"
        if name == "style":
            return "css"
        return "url" if name in _URL_ATTRIBUTES else "text"

    @property
    def takes_variables(self) -> bool:
        """Whether a value can be escaped so that it stays where it is put."""
        content = self.content
        if content == "css":
            return self.mode != "unquoted" and css.takes_variable(self.value)
        return content != "code" and self.mode in ("text", "text_tag", *_QUOTED)

    @property
    def runs_script(self) -> bool:
        """Whether this attribute is a link, or values for one, and one of them is a program."""
        if self.mode not in _VALUES or self.content not in ("url", "code"):
            return False
        read = "".join(c for c in unescape(self.value).lower() if c > " ")
        targets = read.split(";") if self.content == "code" else [read]
        return any(target.startswith(_SCRIPTS) for target in targets)

    @property
    def problem(self) -> str:
        """Why a template that comes here is refused."""
        if self.mode == "unclear":
            return "mail programs read this markup in different ways"
        if self.content == "css" and self.value == css.SELECTOR:
            return "a variable in CSS cannot be part of a selector"
        if self.content == "url" and links.extends_variable(self.value):
            return "a variable at the beginning of a link can only be followed by / ? or #"
        return ""

    def _is_animated(self, name: str) -> bool:
        return name in _ANIMATED and self.tag.rpartition(":")[2] in _ANIMATIONS


# Where HTML's own rules and simpler readers differ in what is a tag.
_UNCLEAR = Place("unclear")


def read(place: Place, character: str) -> Place:
    """The place after one more character."""
    return _READERS[place.mode](place, character)


def _read_text(place: Place, c: str) -> Place:
    return Place("open") if c == "<" else place


def _read_open(place: Place, c: str) -> Place:
    """After `<`: a tag's name, a comment, a declaration, or a mere sign."""
    if place.name in ("", "/") and not _is_letter(c):
        return _read_sign(place, c)
    if c == ">":
        return _after_tag(place.name.lower())
    if c in _SPACE or c == "/":
        return Place("tag", place.name.lower())
    return place._replace(name=place.name + c)


def _read_sign(place: Place, c: str) -> Place:
    """Something other than a letter after `<` or `</`."""
    if place.name:
        return _UNCLEAR
    if c == "/":
        return place._replace(name=c)
    return Place("declared", name=c) if c in "!?" else _read_text(Place(), c)


def _read_declared(place: Place, c: str) -> Place:
    """What kind of declaration it is, or a comment."""
    name = place.name + c.lower()
    if name == "!--":
        return Place("comment", name="--")  # as HTML has it, <!--> is a whole comment
    if c not in _SPACE and c != ">":
        return place._replace(name=name)
    known = place.name in _DECLARATIONS
    return _read_declaration(Place("declaration"), c) if known else _UNCLEAR


def _is_letter(c: str) -> bool:
    return c.isascii() and c.isalpha()


def _read_declaration(place: Place, c: str) -> Place:
    """`name` is the quote that is open."""
    if c == "<" or (c == ">" and place.name):
        return _UNCLEAR
    if c == ">":
        return Place()
    if c == place.name:
        return place._replace(name="")
    return place._replace(name=c) if c in "\"'" and not place.name else place


def _read_tag(place: Place, c: str) -> Place:
    if c == ">":
        return _after_tag(place.tag)
    if c in _SPACE or c == "/":
        return Place("tag", place.tag)
    if place.tag.startswith("/"):
        return _UNCLEAR  # an end tag has no attributes
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
    if c == ">":
        return _after_tag(place.tag)
    begin = css.NAME if place.name == "style" else ""
    if c in "\"'":
        return place._replace(mode="double" if c == '"' else "single", value=begin)
    return _read_value(place._replace(mode="unquoted", value=begin), c)


def _read_quoted(place: Place, c: str) -> Place:
    if c == ('"' if place.mode == "double" else "'"):
        return Place("tag", place.tag)
    return _read_value(place, c)


def _read_unquoted(place: Place, c: str) -> Place:
    return _read_tag(place, c) if c in _SPACE or c == ">" else _read_value(place, c)


def _read_value(place: Place, c: str) -> Place:
    if len(place.value) >= _MAX_LINK_CHARS:
        return place
    content = place.content
    if content == "css":
        # A character reference may stand for anything: the value must begin anew after it.
        return place._replace(value=css.NAME if c == "&" else css.read(place.value, c))
    return place if content == "text" else place._replace(value=place.value + c)


def _read_raw(place: Place, c: str) -> Place:
    """Inside <script>, <title> and the like: only its own end tag ends it."""
    # Another tag is mere text in HTML, but not in SVG. Old style sheets are inside <!-- -->.
    if place.name == "<" and (_is_letter(c) or (c in "!?" and place.tag != "style")):
        return _UNCLEAR
    if place.name == f"</{place.tag}" and (c in _SPACE or c in "/>"):
        return _read_tag(Place("tag", place.name[1:]), c)
    marker = place.name + c.lower()
    if not f"</{place.tag}".startswith(marker):
        marker = "<" if c == "<" else ""
    value = css.read(place.value, c) if place.content == "css" else ""
    return place._replace(name=marker, value=value)


def _read_comment(place: Place, c: str) -> Place:
    if place.name == "--" and c in "!>":
        return place._replace(name="--!") if c == "!" else Place()
    if place.name == "--!" and c == ">":
        return _UNCLEAR
    dashes = "--" if place.name in ("-", "--") else "-"
    return place._replace(name=dashes if c == "-" else "")


def _after_tag(tag: str) -> Place:
    if tag in _RAW_TAGS:
        return Place("raw", tag, value=css.NAME if tag == "style" else "")
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
    "declared": _read_declared,
    "declaration": _read_declaration,
}
