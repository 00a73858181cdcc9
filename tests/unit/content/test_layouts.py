"""Layouts and parts that templates share."""

from pathlib import Path
from typing import Any

import pytest

from homing.content.templates import Catalog, Rendered
from homing.domain.errors import SettingsError

BASE = (
    "{% set colour = colour | default('#333') %}"
    '<html><body style="color: {{ colour }}">'
    "{% block head %}<h1>{{ shop }}</h1>{% endblock %}"
    "{% block body required %}{% endblock %}"
    "{% include 'footer.html.tmpl' %}</body></html>"
)


def catalog(folder: Path, **files: str) -> Catalog:
    """`shared_base_html` is `_shared/base.html.tmpl`; `t_en_text` is `t/en/text.tmpl`."""
    for name, source in {"t_en_subject": "s", "t_en_text": "t", **files}.items():
        *place, last = name.split("_")
        if place[0] == "shared":
            place, last = ["_shared", *place[1:-1]], f"{place[-1]}.{last}"
        path = folder.joinpath(*place, f"{last}.tmpl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return Catalog.load(folder)


def rendered(made: Catalog, locale: str = "en", **variables: Any) -> Rendered:
    result = made.render("t", locale, {"shop": "A&B", **variables})
    assert isinstance(result, Rendered), result
    return result


def test_a_template_fills_the_blocks_of_its_layout(tmp_path: Path) -> None:
    made = catalog(
        tmp_path,
        shared_base_html=BASE,
        shared_footer_html="<small>{{ shop }}</small>",
        t_en_html="{% extends 'base.html.tmpl' %}\n"
        "{% set colour = 'red' %}\n"
        "{% block body %}<p>{{ name }}</p>{% include 'footer.html.tmpl' %}{% endblock %}\n",
    )
    assert rendered(made, name="<Ann>").html == (
        '<html><body style="color: red"><h1>A&amp;B</h1><p>&lt;Ann&gt;</p>'
        "<small>A&amp;B</small><small>A&amp;B</small></body></html>"
    )


def test_layouts_can_have_layouts(tmp_path: Path) -> None:
    made = catalog(
        tmp_path,
        shared_base_text="[{% block a %}a{% endblock %}{% block b %}b{% endblock %}]",
        shared_middle_text="{% extends 'base.text.tmpl' %}"
        "{% block a %}<{% block inner %}i{% endblock %}>{% endblock %}",
        t_en_text="{% extends 'middle.text.tmpl' %}{% block inner %}{{ x }}{% endblock %}"
        "{% block b %}!{% endblock %}",
    )
    assert rendered(made, x="&").text == "[<&>!]"


def test_an_included_part_sees_the_variables_around_it_and_changes_none(tmp_path: Path) -> None:
    made = catalog(
        tmp_path,
        shared_line_text="{{ loop.index }}{{ item }}{% set item = 'changed' %}",
        t_en_text="{% for item in items %}{% include 'line.text.tmpl' %}{{ item }};{% endfor %}",
    )
    assert rendered(made, items=["a", "b"]).text == "1aa;2bb;"


def test_a_locale_can_have_its_own(tmp_path: Path) -> None:
    made = catalog(
        tmp_path,
        shared_footer_text="Bye",
        shared_de_footer_text="Tschüss",
        t_en_text="{% include 'footer.text.tmpl' %}",
        t_de_subject="{% include 'footer.text.tmpl' %}",
        t_de_text="{% include 'footer.text.tmpl' %}",
    )
    assert rendered(made).text == "Bye"
    assert rendered(made, "de").text == rendered(made, "de").subject == "Tschüss"


def test_a_shared_part_can_be_inside_a_tag(tmp_path: Path) -> None:
    made = catalog(
        tmp_path,
        shared_style_html='style="color: {{ colour }}"',
        t_en_html="<p {% include 'style.html.tmpl' %}>x</p>",
    )
    assert rendered(made, colour="a;b").html == '<p style="color: a\\3b b">x</p>'


WRONG: list[tuple[dict[str, str], str]] = [
    ({"t_en_text": "\n{% include 'no.text.tmpl' %}"}, "t/en/text.tmpl:2: there is no _shared/no"),
    ({"t_en_text": "{% extends '../t/en/subject.tmpl' %}"}, "t/en/text.tmpl:1: there is no"),
    (
        {"t_en_text": "{% include 'a.html.tmpl' %}", "shared_a_html": ""},
        "t/en/text.tmpl:1: there is no _shared/a.html.tmpl for text",
    ),
    ({"shared_a_text": "\n\n{% if %}"}, "_shared/a.text.tmpl:3: "),
    ({"shared_a_text": "\n{{ x|nosuch }}"}, "_shared/a.text.tmpl:2: there is no filter"),
    ({"shared_de_a_text": "{{ _x }}"}, "_shared/de/a.text.tmpl:1: the name '_x' is reserved"),
    ({"shared_a_md": ""}, "_shared/a.md.tmpl: must be named"),
    (
        {"t_en_html": "<script>\n{% include 'a.html.tmpl' %}", "shared_a_html": "\n{{ x }}"},
        "_shared/a.html.tmpl:2: a variable cannot be used inside <script>",
    ),
    (
        {"t_en_html": "{% include 'a.html.tmpl' %}{{ x }}", "shared_a_html": "<!-- "},
        "t/en/html.tmpl:1: a variable cannot be used here",
    ),
    (
        {
            "t_en_text": "{% include 'a.text.tmpl' %}",
            "shared_a_text": "{% include 'a.text.tmpl' %}",
        },
        "_shared/a.text.tmpl:1: a.text.tmpl uses itself",
    ),
    (
        {
            "t_en_text": "{% extends 'a.text.tmpl' %}",
            "shared_a_text": "{% extends 'a.text.tmpl' %}",
        },
        "_shared/a.text.tmpl:1: a.text.tmpl uses itself",
    ),
    (
        {"t_en_text": "x{% extends 'a.text.tmpl' %}", "shared_a_text": ""},
        "t/en/text.tmpl:1: extends must come first",
    ),
    (
        {"t_en_text": "{% if x %}{% extends 'a.text.tmpl' %}{% endif %}", "shared_a_text": ""},
        "t/en/text.tmpl:1: extends must come first",
    ),
    (
        {"t_en_text": "{% extends 'a.text.tmpl' %}\nlost", "shared_a_text": ""},
        "has no effect: a template with a layout has blocks only",
    ),
    (
        {
            "t_en_text": "{% extends 'a.text.tmpl' %}{% block b %}{% endblock %}",
            "shared_a_text": "",
        },
        "t/en/text.tmpl:1: the layout has no block 'b'",
    ),
    (
        {
            "t_en_text": "{% extends 'a.text.tmpl' %}",
            "shared_a_text": "\n{% block b required %}{% endblock %}",
        },
        "_shared/a.text.tmpl:2: the block 'b' is required",
    ),
    (
        {"t_en_text": "{% block b %}{% endblock %}{% block b %}{% endblock %}"},
        "t/en/text.tmpl:1: ",
    ),
    (
        {
            "t_en_text": "{% include 'a.text.tmpl' %}",
            "shared_a_text": "{% block b %}{% endblock %}",
        },
        "_shared/a.text.tmpl:1: an included file has no layout or blocks",
    ),
    (
        {"t_en_text": "{% include 'a.text.tmpl' %}" * 50, "shared_a_text": ""},
        "t/en/text.tmpl:1: is made of more than 50 files",
    ),
    (
        {
            "t_en_text": "{% for a in x %}" * 6
            + "{% include 'a.text.tmpl' %}"
            + "{% endfor %}" * 6,
            "shared_a_text": "\n" + "{% for a in x %}" * 6 + "{% endfor %}" * 6,
        },
        "_shared/a.text.tmpl:2: has more than 10 loops within one another",
    ),
]


@pytest.mark.parametrize(("files", "problem"), WRONG, ids=range(len(WRONG)))
def test_what_does_not_fit_together_stops_the_start_and_names_file_and_line(
    tmp_path: Path, files: dict[str, str], problem: str
) -> None:
    with pytest.raises(SettingsError) as refusal:
        catalog(tmp_path, **files)
    assert problem in str(refusal.value)
