"""M-149: a variable stands only where escaping makes it harmless."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from homing.content.templates import Catalog, Rendered
from homing.domain.errors import SettingsError


def load(folder: Path, html: str) -> Catalog:
    place = folder / "t" / "en"
    place.mkdir(parents=True)
    (place / "subject.tmpl").write_text("s")
    (place / "text.tmpl").write_text("t")
    (place / "html.tmpl").write_text(html)
    return Catalog.load(folder)


@pytest.mark.parametrize(
    "html",
    [
        "<script>var a = '{{ x }}';</script>",
        "<SCRIPT >{{ x }}</script>",
        "<script>if (1 < 2) {} </scrip{{ x }}</script>",
        "<style>p { color: {{ x }} }</style>",
        "<iframe>{{ x }}</iframe>",
        "<!-- {{ x }} -->",
        "<p title={{ x }}>",
        "<p {{ x }}>",
        "<p {{ x }}='a'>",
        "<{{ x }}>",
        "<p{{ x }}>",
        "</{{ x }}>",
        "<p a{{ x }}='b'>",
        '<p onclick="f({{ x }})">',
        '<p ONCLICK = "f({{ x }})">',
        '<p style="color: {{ x }}">',
        '<iframe srcdoc="{{ x }}">',
        '<meta http-equiv="refresh" content="0;url={{ x }}">',
        '<a href="java{{ x }}">',
        '<a href="javascript:{{ x }}">',
        '<a href=" JavaScript:f({{ x }})">',
        '<a href="java&#115;cript:{{ x }}">',
        '<a href="data:text/html,{{ x }}">',
        '<a href="vbscript:{{ x }}">',
        '<a href="{{ x }}{{ x }}">',
        '<a href="{% if x %}{{ x }}{% endif %}{{ x }}">',
        '<a href="{% for i in x %}{{ i }}{% endfor %}">{% for i in x %}<a href="{% endfor %}',
        "{% if x %}<script>{% endif %}{{ x }}",
        '{% if x %}<p title="{% else %}<p>{% endif %}{{ x }}',
        "{% for i in x %}<!--{% endfor %}{{ x }}",
        "<script>{% if x %}</script>{% endif %}",
        "<title>a</title><script>{{ x }}</script>",
        "<!--><script>--> {{ x }}",
    ],
)
def test_a_variable_in_a_dangerous_place_stops_the_start(tmp_path: Path, html: str) -> None:
    with pytest.raises(SettingsError, match=r"t/en/html\.tmpl:1: "):
        load(tmp_path, html)


class Skeleton(HTMLParser):
    """The tags and the names of their attributes, as a reader sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, [name for name, _ in attrs]))

    def handle_endtag(self, tag: str) -> None:
        self.seen.append(tag)

    def handle_comment(self, data: str) -> None:
        self.seen.append(data)


def skeleton(catalog: Catalog, value: str) -> list[object]:
    result = catalog.render("t", "en", {"x": value})
    assert isinstance(result, Rendered), result
    assert result.html is not None
    reader = Skeleton()
    reader.feed(result.html)
    reader.close()
    return reader.seen


PAYLOAD = """"><script>alert(1)</script><img src=x onerror='alert(2)'>"""


@pytest.mark.parametrize(
    "html",
    [
        "<p>{{ x }}</p>",
        "<title>{{ x }}</title>",
        "<textarea>{{ x }}</textarea><p>{{ x }}</p>",
        "<p title=\"{{ x }}\" class='{{ x }}'>",
        "<script>f()</script>{{ x }}",
        "<script>'</scripty>'</script>{{ x }}",
        "<style>p > a { }</style>{{ x }}",
        "<!-- a -- > b --->{{ x }}<!---->{{ x }}<!-->{{ x }}",
        '<p {% if x %}class="a"{% endif %}>{{ x }}</p>',
        '<p class="{% if x %}a{% else %}bb{% endif %}" title="{{ x }}">{{ x }}</p>',
        "{% for i in [x, x] %}<li>{{ i }}</li>{% else %}<b>none</b>{% endfor %}",
        "<br/>{{ x }}<hr />a < b {{ x }}",
        '<a href="https://example.org/?x={{ x }}">y</a>',
        '<a href="/x/{{ x }}">y</a><a href="mailto:a@b.co?subject={{ x }}">',
        "<title>{% if x %}{{ x }}{% else %}b{% endif %}</title>{{ x }}",
        '<!DOCTYPE html><html lang="en">{{ x }}</html>',
    ],
)
def test_elsewhere_no_value_can_open_a_tag_or_leave_its_quotes(tmp_path: Path, html: str) -> None:
    catalog = load(tmp_path, html)
    assert skeleton(catalog, PAYLOAD) == skeleton(catalog, "harmless")


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("https://example.org/?a=1&b=2", "https://example.org/?a=1&amp;b=2"),
        ("HTTP://example.org", "HTTP://example.org"),
        ("mailto:ann@example.org", "mailto:ann@example.org"),
        ("/path:with/colon", "/path:with/colon"),
        ("?q=a:b", "?q=a:b"),
        ("#part", "#part"),
        ("", ""),
        ("javascript:alert(1)", "#unsafe-link"),
        (" \tJaVa\nScRiPt\r:alert(1)", "#unsafe-link"),
        ("\x01javascript:alert(1)", "#unsafe-link"),
        ("data:text/html,<script>", "#unsafe-link"),
        ("vbscript:x", "#unsafe-link"),
        ("file:///etc/passwd", "#unsafe-link"),
        ('https://x" onclick="f()', "https://x&#34; onclick=&#34;f()"),
    ],
)
def test_a_link_goes_nowhere_dangerous(tmp_path: Path, link: str, shown: str) -> None:
    result = load(tmp_path, '<a href="{{ x }}">y</a>').render("t", "en", {"x": link})
    assert isinstance(result, Rendered), result
    assert result.html == f'<a href="{shown}">y</a>'
