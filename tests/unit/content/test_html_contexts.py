"""M-149: a variable stands only where escaping makes it harmless."""

import re
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
        "<style>{{ x }} { color: red }</style>",
        "<style>p { {{ x }}: red }</style>",
        "<style>p { background: url({{ x }}) }</style>",
        "<style>@import '{{ x }}';</style>",
        "<style>p { color: red } /* a: {{ x }} */</style>",
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
        '<p style="{{ x }}">',
        '<p style="{{ x }}: red">',
        '<p style="color: red; {{ x }}">',
        '<p style="background: url({{ x }})">',
        "<p style=\"background: url('{{ x }}')\">",
        '<p style="width: calc(1px + {{ x }})">',
        '<p style="background: url&#40{{ x }})">',
        '<p style="color: \\{{ x }}">',
        "<p style=color:{{ x }}>",
        '<p style="{% for i in x %}{{ i }}: red;{% endfor %}">',
        '<a xlink:href="javascript:{{ x }}">',
        '<svg><animate attributeName="href" values="{{ x }}"/></svg>',
        '<svg><set attributeName="href" to="{{ x }}"/></svg>',
        '<svg><SET to="a" from="{{ x }}"/></svg>',
        '<svg><animateTransform by="{{ x }}"/></svg>',
        '<svg><animate attributeName="{{ x }}"/></svg>',
        '<a href="{% for i in x %}{{ i }}{% endfor %}">',
        "<p {% if x %}title={% endif %}{{ x }}>",
        "<p{% if x %} a{% endif %}{{ x }}>",
        # The same without a variable: no reader of mail runs it.
        '<a href="javascript:f()">',
        '<a href=" jAvA\tscript:f()">',
        "<a href='java&#115;cript:f()'>",
        "<a href=javascript:f()>",
        '<a xlink:href="javascript:f()">',
        '<svg><animate attributeName="href" values="#;javascript:f()"/></svg>',
        '<svg><set attributeName="href" to="javascript:f()"/></svg>',
        '<svg><set attributeName="href" to=vbscript:f() /></svg>',
        '<iframe srcdoc="{{ x }}">',
        '<meta http-equiv="refresh" content="0;url={{ x }}">',
        '<a href="java{{ x }}">',
        '<a href="javascript:{{ x }}">',
        '<a href=" JavaScript:f({{ x }})">',
        '<a href="java&#115;cript:{{ x }}">',
        '<a href="data:text/html,{{ x }}">',
        '<a href="vbscript:{{ x }}">',
        '<a href="{{ x }}{{ x }}">',
        '<a href="{% if x %}java{% endif %}{{ x }}">',
        '<a href="{% if x %}/{% else %}java{% endif %}{{ x }}">',
        '<a href="{% if x %}{{ x }}{% endif %}{{ x }}">',
        '<a href="{% for i in x %}{{ i }}{% endfor %}">{% for i in x %}<a href="{% endfor %}',
        "{% if x %}<script>{% endif %}{{ x }}",
        '{% if x %}<p title="{% else %}<p>{% endif %}{{ x }}',
        "{% for i in x %}<!--{% endfor %}{{ x }}",
        "<script>{% if x %}</script>{% endif %}",
        "<title>a</title><script>{{ x }}</script>",
        '<svg><title><a href="{{ x }}">',
        "<!--><script>--> {{ x }}",
        # The variable would be the scheme, or a part of it.
        '<a href="{{ x }}:alert(1)">',
        '<a href="{{ x }}://example.org/">',
        '<a href="{{ x }}&colon;alert(1)">',
        '<a href="{{ x }}script:alert(1)">',
        '<a href="&#32;{{ x }}:alert(1)">',
        '<a href="\x01{{ x }}:alert(1)">',
        "<a href=' {{ x }} \t:alert(1)'>",
        '<a href="{% if x %}{{ x }}{% endif %}:x">',
        # The variable would continue the host.
        '<a href="https://example.org{{ x }}">',
        '<a href="https://example.org:{{ x }}/">',
        '<a href="//example.org{{ x }}">',
        '<a href="https:/example.org{{ x }}">',
        '<a href="https:example.org{{ x }}">',
        r'<a href="https:\\example.org{{ x }}">',
        '<a href="https:&#47;&#47;example.org{{ x }}">',
        '<a href="https://{{ x }}{{ x }}/">',
        '<a href="/{{ x }}/{{ x }}">',
        '<a href="/{{ x }}/a{{ x }}">',
        '<a href="{% if x %}https://example.org{% else %}/a/{% endif %}{{ x }}">',
        '<a href="/a{% if x %}?b={% endif %}{{ x }}">',
        # A selector, which only shows at its brace.
        "<style>a:{{ x }} { color: red }</style>",
        "<style>a:{{ x }}:hover { color: red }</style>",
        "<style>@media print { a:{{ x }} { color: red } }</style>",
        "<style>p[a='b']:is('{{ x }}') { color: red }</style>",
        "<style>a:{% if x %}{{ x }}{% endif %} { color: red }</style>",
    ],
)
def test_a_variable_in_a_dangerous_place_stops_the_start(tmp_path: Path, html: str) -> None:
    with pytest.raises(SettingsError, match=r"t/en/html\.tmpl:1: "):
        load(tmp_path, html)


@pytest.mark.parametrize(
    "html",
    [
        '<!x y="><a href={{ x }} ">',
        '<!x><p title="{{ x }}">',
        "<!ELEMENT a>",
        '<!DOCTYPE html "><p title={{ x }} ">',
        "<!DOCTYPE html <p>",
        '<?php a="> <p title={{ x }} b="?>',
        '<?xml a="> <p title={{ x }} b="?>',
        '</p a="> <img alt={{ x }} b=">',
        "</p a>",
        "</ p>",
        '<script></script a="> <img alt={{ x }} b=">',
        '<svg><![CDATA[ > <p title="]]><p title={{ x }}">',
        "<!->{{ x }}",
        "<!-- --!><script>--> {{ x }}",
        "<script><!--<script></script>{{ x }}",
        '<svg><title><a title="</title><a title="{{ x }}">',
        '<svg><style><a title="</style><a title="{{ x }}">',
        '<é a="><p title={{ x }} ">',
    ],
)
def test_markup_that_readers_of_mail_understand_differently_stops_the_start(
    tmp_path: Path, html: str
) -> None:
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
        "<title>a < b {{ x }} </titl {{ x }}</title><p>{{ x }}</p>",
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
        '<p{% if x %} class="a"{% endif %}>{{ x }}</p>',
        "<option {% if x %}selected{% endif %}>{{ x }}</option>",
        "<input{% if x %} checked{% else %} disabled {% endif %} title='{{ x }}'>{{ x }}",
        '<td{% for i in [x, x] %} data-a="{{ i }}"{% endfor %} class="{{ x }}">{{ x }}</td>',
        "{% if x %}<b{% else %}<i{% endif %} title='{{ x }}'>{{ x }}",
        '<a {% if x %}href="https://a.example/?x={{ x }}"{% else %}name="b"{% endif %}>{{ x }}</a>',
        '<a href="{% if x %}https://a.example/{% else %}/b/{% endif %}{{ x }}">y</a>',
        '<a href="https://a.example/?{% for i in [x, x] %}&amp;i={{ i }}{% endfor %}">y</a>',
        "<p style=\"color: {{ x }}; font-family: '{{ x }}', serif\">{{ x }}</p>",
        "<p style='width: {{ x }}px; {% if x %}color: {{ x }}{% endif %}'>{{ x }}</p>",
        '<p style="{% for i in [x, x] %}color: {{ i }};{% endfor %}">{{ x }}</p>',
        "<style>p { color: {{ x }} } /* {} ' */ a { width: {{ x }}% }</style>{{ x }}",
        '<a xlink:href="{{ x }}">y</a>',
        '<img src="data:image/png;base64,AAAA">{{ x }}',
        '<a href="{{ x }}/a?b={{ x }}">y</a>',
        '<a href="{% if x %}{{ x }}{% else %}/a{% endif %}#b">y</a>',
        '<a href="/a?b=1&amp;c={{ x }}">y</a>',
        '<a href="https://{{ x }}/{{ x }}/{{ x }}">y</a><a href="{{ x }}/{{ x }}/{{ x }}">y</a>',
        '<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01//EN" "http://www.w3.org/a.dtd">{{ x }}',
        '<?xml version="1.0"?><p title="{{ x }}">',
        "<![if !mso]><p>{{ x }}</p ><![endif]>",
        "<!--[if mso]><p><![endif]-->{{ x }}<!--[if !mso]><!--><b>{{ x }}</b><!--<![endif]-->",
        "<style><!-- p { color: {{ x }} } --></style>{{ x }}",
        "<style>@media (width < 9px) { a:hover { color: {{ x }}; } b:hover { } }</style>",
    ],
)
def test_elsewhere_no_value_can_open_a_tag_or_leave_its_quotes(tmp_path: Path, html: str) -> None:
    catalog = load(tmp_path, html)
    assert skeleton(catalog, PAYLOAD) == skeleton(catalog, "harmless")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("red", "red"),
        ("#a0b1c2", "#a0b1c2"),
        ("12.5", "12.5"),
        ("1px solid", "1px solid"),
        ("rgba(1, 2, 3, 0.5)", "rgba(1, 2, 3, 0.5)"),
        ("red; background: url(x)", r"red\3b  background\3a  url\28 x\29 "),
        ("url(https://evil.example)", r"url\28 https\3a \2f \2f evil.example\29 "),
        ("</style><script>", r"\3c \2f style\3e \3c script\3e "),
        ("a\\", r"a\5c "),
        ("'\"&", r"\27 \22 \26 "),
        ("\nä", r"\a \e4 "),
        (7, "7"),
    ],
)
@pytest.mark.parametrize("html", ['<p style="color: {}">', "<style>p {{ color: {} }}</style>"])
def test_a_value_in_css_stays_one_value(
    tmp_path: Path, html: str, value: object, shown: str
) -> None:
    result = load(tmp_path, html.format("{{ x }}")).render("t", "en", {"x": value})
    assert isinstance(result, Rendered), result
    assert result.html == html.format(shown)


def test_a_long_picture_in_the_template_is_read_once(tmp_path: Path) -> None:
    """Each character costs the same, however long an attribute is."""
    picture = "A" * 200_000
    load(tmp_path, f'<img src="data:image/png;base64,{picture}">{{{{ x }}}}')


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


@pytest.mark.parametrize(
    ("link", "value", "shown"),
    [
        ("https://example.org/?id={{ x }}", "1&admin=1#x y+z", "1%26admin%3D1%23x%20y%2Bz"),
        ("https://example.org/?id={{ x }}&amp;b=1", "ä/é", "%C3%A4%2F%C3%A9"),
        ("/?id={{ x | urlencode }}", "a&b c", "a%26b%20c"),
        ("/?{{ {'a': x, 'b': 1} | urlencode }}", "1&2", "a=1%262&amp;b=1"),
        ("https://example.org/#{{ x }}", "a b", "a%20b"),
        ("https://example.org/{{ x }}", "img/a b.png?c#d", "img/a%20b.png%3Fc%23d"),
        ("https://example.org/{{ x }}", 7, "7"),
        ("https://example.org/u/{{ x }}/leave", "../admin", "..%2Fadmin"),
        ("/{{ x }}", "/evil.example/x", "%2Fevil.example%2Fx"),
        ("/{{ x | urlencode }}", "/evil.example/x", "%2Fevil.example%2Fx"),
        ("/{{ x }}", "\\evil.example", "%5Cevil.example"),
        ("{{ '' }}/{{ x }}", "/evil.example", "%2Fevil.example"),
        ("mailto:{{ x }}", "a+b@c.example?bcc=d@e.example", "a+b@c.example%3Fbcc%3Dd@e.example"),
        ("mailto:a@b.example?subject={{ x }}", "a b&bcc=c", "a%20b%26bcc%3Dc"),
        ("tel:{{ x }}", "+49 30", "+49%2030"),
        ("https://{{ x }}/a", "localhost:8000", "localhost:8000"),
        ("https://{{ x }}.example.org/", "evil.example/", "evil.example%2F"),
        ("https://{{ x }}.example.org/", "a@evil.example#", "a%40evil.example%23"),
    ],
)
def test_a_variable_in_a_link_stays_in_its_part(
    tmp_path: Path, link: str, value: object, shown: str
) -> None:
    result = load(tmp_path, f'<a href="{link}">').render("t", "en", {"x": value})
    assert isinstance(result, Rendered), result
    variable = re.compile(r"\{\{ (?!'').*? \}\}")
    assert result.html == f'<a href="{variable.sub(lambda _: shown, link)}">'.replace(
        "{{ '' }}", ""
    )


def test_what_was_percent_encoded_before_is_not_encoded_again(tmp_path: Path) -> None:
    catalog = load(tmp_path, '{% set a = x | urlencode %}<a href="/?a={{ a }}">{{ a }}</a>')
    result = catalog.render("t", "en", {"x": "b c"})
    assert isinstance(result, Rendered), result
    assert result.html == '<a href="/?a=b%20c">b%20c</a>'
