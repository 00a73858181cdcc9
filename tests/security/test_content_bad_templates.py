"""T6: whatever is in a template's file, loading it works or names the file and the line."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from homing.content.templates import Catalog
from homing.domain.errors import SettingsError

PLACE = re.compile(r"^templates: t/en/(?:text|html)\.tmpl:\d+: ")


def load(folder: Path, source: str, part: str = "text") -> None:
    place = folder / "t" / "en"
    place.mkdir(parents=True, exist_ok=True)
    (place / "subject.tmpl").write_text("s")
    (place / "text.tmpl").write_text("t")
    (place / f"{part}.tmpl").write_text(source)
    Catalog.load(folder)


def nested(opening: str, closing: str, times: int, inside: str = "") -> str:
    return opening * times + inside + closing * times


TOO_DEEP = [
    nested("{% for i in x %}", "{% endfor %}", 21),
    nested("{% for i in x %}\n", "{% endfor %}", 11),
    nested("{% if x %}", "{% endif %}", 101),
    nested("{% if x %}{% else %}", "{% endif %}", 2000),
    nested("{% for i in x %}{% if i %}", "{% endif %}{% endfor %}", 15),
    "{{ " + nested("(", ")", 250, "x") + " }}",
    "{{ " + nested("[", "]", 250, "x") + " }}",
    "{{ " + nested("-", "", 5000, "x") + " }}",
    "{{ " + nested("not ", "", 5000, "x") + " }}",
    "{{ " + nested("(x if ", " else x)", 120, "x") + " }}",
    "{{ " + nested("x[", "]", 120, "x") + " }}",
    "{{ x" + ".a" * 5000 + " }}",
    "{{ x" + "|upper" * 5000 + " }}",
    "{{ x" + " + x" * 5000 + " }}",
    "{{ x" + " and x" * 5000 + " }}",
    "{{ " + "9" * 5000 + " }}",
    "{{ 1e999 }}",
    "{{ x.get(a=1, a=2) }}",
    "{{ x | default(default_value=1, default_value=2) }}",
]


@pytest.mark.parametrize("source", TOO_DEEP, ids=lambda source: source[:40])
@pytest.mark.parametrize("part", ["text", "html"])
def test_a_template_too_deep_for_python_names_its_line(
    tmp_path: Path, part: str, source: str
) -> None:
    with pytest.raises(SettingsError) as refusal:
        load(tmp_path, source, part)
    assert PLACE.match(str(refusal.value)), refusal.value


# As deep as the language goes, in every way that it can be written.
DEEP = [
    nested("{% for i in x %}", "{% endfor %}", 10, "{{ i }}{{ loop.index }}"),
    nested("{% if x %}", "{% endif %}", 38),
    nested("{% for i in x %}{% if i %}", "{% endif %}{% endfor %}", 10, "{{ i }}"),
    "{{ " + nested("[", "]", 37, "x") + " }}",
    "{{ " + nested("{'a': ", "}", 18, "x") + " }}",
    "{{ " + nested("(x if ", " else x)", 37, "x") + " }}",
    "{{ " + nested("x[", "]", 37, "x") + " }}",
    "{{ x" + "|default('a')" * 37 + " }}",
    "{{ x" + ".upper()" * 18 + " }}",
    "{{ " + nested("(x ~ ", ")", 37, "x") + " }}",
    "{{ " + nested("(x * ", ")", 37, "x") + " }}",
    "{{ " + nested("(x < ", ")", 18, "x") + " }}",
]


@pytest.mark.parametrize("source", DEEP, ids=lambda source: source[:40])
@pytest.mark.parametrize("part", ["text", "html"])
def test_what_the_language_allows_can_be_compiled(tmp_path: Path, part: str, source: str) -> None:
    load(tmp_path, source, part)


PIECES = [
    "{{ x }}", "{{", "}}", "{% if x %}", "{% else %}", "{% elif y %}", "{% endif %}",
    "{% for i in x %}", "{% endfor %}", "{% set a = 1 %}", "{% block b %}", "{% endblock %}",
    "{% extends 'a' %}", "{% include 'a.text.tmpl' %}", "{%", "%}", "{#", "#}", "{% raw %}",
    "{{ 'a", "'", '"', "|", ".", "(", ")", "[", "]", "x", "1e9", "**", "~", "-", "\n", "<a href=",
    "<p style='", "<script>", "</script>", "<!--", "-->", ">", "=", "javascript:", "é", "\u2028",
]  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12),
    part=st.sampled_from(["text", "html"]),
)
def test_no_source_makes_loading_fail_in_another_way(
    tmp_path: Path, pieces: list[str], part: str
) -> None:
    source = "".join(pieces).encode("utf-8", "replace").decode()
    try:
        load(tmp_path, source, part)
    except SettingsError as refusal:
        assert PLACE.match(str(refusal)), refusal  # noqa: PT017 - either way is right
