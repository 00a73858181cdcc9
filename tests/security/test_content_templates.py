"""T6: what a template can do, whoever wrote it, and whatever is in its variables."""

from pathlib import Path
from typing import Any

import pytest

from homing.content.templates import Catalog, Rendered
from homing.content.templates.budget import Bounds
from homing.content.templates.catalog import TOO_LARGE, TOO_SLOW
from homing.domain.errors import SettingsError
from homing.domain.failure import Failure

BOUNDS = Bounds()


def load(folder: Path, text: str, *, html: str | None = None, bounds: Bounds = BOUNDS) -> Catalog:
    place = folder / "t" / "en"
    place.mkdir(parents=True)
    (place / "subject.tmpl").write_text("s")
    (place / "text.tmpl").write_text(text)
    if html is not None:
        (place / "html.tmpl").write_text(html)
    return Catalog.load(folder, bounds=bounds)


# Ways out of a sandbox, from the literature on server-side template injection.
ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__'] }}",
    "{{ x['__cla' ~ 'ss__'] }}",
    "{{ ()|attr('__class__') }}",
    "{{ x|attr('\\x5f\\x5fclass\\x5f\\x5f') }}",
    "{{ x|map(attribute='__class__')|list }}",
    "{{ [x]|map('attr', '__class__')|list }}",
    "{{ '{0.__class__}'.format(x) }}",
    "{{ '{0.__class__.__init__.__globals__}'.format_map({'0': x}) }}",
    "{{ ('%s' % x).__class__ }}",
    "{{ self }}",
    "{{ self.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ cycler.__init__.__globals__.os }}",
    "{{ joiner.__init__.__globals__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ lipsum() }}",
    "{{ dict.__base__ }}",
    "{{ range.__class__ }}",
    "{{ config }}",
    "{{ request }}",
    "{{ url_for.__globals__ }}",
    "{{ get_flashed_messages.__globals__ }}",
    "{{ loop.__class__ }}",
    "{% for i in [1] %}{{ loop._iterator }}{% endfor %}",
    "{% for i in [1] %}{{ loop.__init__ }}{% endfor %}",
    "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{% for i in [1] %}{{ loop.cycle.__globals__ }}{% endfor %}",
    "{% set x = x.__class__ %}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}",
    "{% import 'os' as os %}",
    "{% from 'os' import system %}",
    "{% include '/etc/passwd' %}",
    "{% extends 'layout' %}",
    "{% block a %}{{ self.a() }}{% endblock %}",
    "{% block a %}{{ super() }}{% endblock %}",
    "{% include ['a', 'b'] %}",
    "{% include x %}",
    "{% include 'x' ignore missing %}",
    "{% include '../../../../etc/passwd' %}",
    "{% extends x %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% call x() %}{% endcall %}",
    "{% filter upper %}x{% endfilter %}",
    "{% with a = 1 %}{% endwith %}",
    "{% set a %}x{% endset %}",
    "{% do x.append(1) %}",
    "{% debug %}",
    "{{ x.append(1) }}",
    "{{ [].append }}",
    "{{ {}.clear() }}",
    "{{ {}.update(a=1) }}",
    "{{ {}.pop('a') }}",
    "{{ {}.setdefault('a', 1) }}",
    "{{ x.encode() }}",
    "{{ x.join(['a']) }}",
    "{{ x.translate({}) }}",
    "{{ x.mro() }}",
    "{{ x() }}",
    "{{ (x)() }}",
    "{{ x.get()() }}",
    "{{ [x][0]() }}",
    "{{ range(*[1]) }}",
    "{{ x.upper(**{'a': 1}) }}",
    "{{ x|pprint }}",
    "{{ x|tojson }}",
    "{{ x|safe }}",
    "{{ x|xmlattr }}",
    "{{ [1]|random }}",
    "{{ x|urlize }}",
    "{{ [x]|map('upper')|list }}",
    "{{ x|groupby('__class__') }}",
    "{{ x is filter }}",
    "{{ x is callable }}",
    "{{ x|__for }}",
    "{{ x|__link }}",
    "{{ x|__css }}",
    "{{ x ** 2 }}",
    "{{ True.__class__ }}",
    "{{ (1).real }}",
    "{{ 1.0.hex() }}",
    "{{ none.__class__ }}",
    "{{ x.y.__class__ }}",
    "{{ caller() }}",
    "{{ varargs }}",
    "{{ kwargs }}",
    "{{ super() }}",
    "{{ gettext('x') }}",
    "{% trans %}x{% endtrans %}",
    "{% autoescape false %}{{ x }}{% endautoescape %}",
    "{% continue %}",
]  # fmt: skip


@pytest.mark.parametrize("source", ESCAPES)
def test_no_way_leads_out_of_the_sandbox(tmp_path: Path, source: str) -> None:
    """Refused at the start, or a failed rendering: never output."""
    try:
        catalog = load(tmp_path, source)
    except SettingsError as refusal:
        assert "t/en/text.tmpl" in str(refusal)  # noqa: PT017 - either way is right
        return
    result = catalog.render("t", "en", {"x": "value"})
    assert isinstance(result, Failure), result


@pytest.mark.parametrize("source", ESCAPES)
def test_in_a_variable_they_are_mere_text(tmp_path: Path, source: str) -> None:
    result = load(tmp_path, "{{ x }}", html="<p>{{ x }}</p>").render("t", "en", {"x": source})
    assert isinstance(result, Rendered)
    assert result.text == source


BIG = "x" * 1_000_000
# Each of these would eat the processor or the memory if Jinja were left alone.
LOOP, END = "{% for i in range(10000) %}", "{% endfor %}"
RUNAWAYS = [
    "{% for i in range(10**9) %}{% endfor %}",
    "{% for i in range(1000000000) %}{% endfor %}",
    LOOP + LOOP + LOOP + END * 3,
    LOOP + LOOP + "{{ big in big }}" + END * 2,
    LOOP + LOOP + "{% set a = big | upper %}" + END * 2,
    LOOP + LOOP + "{% if big == big ~ '' %}{% endif %}" + END * 2,
    "{% for i in range(10000) %}{{ big }}{% endfor %}",
    "{% for i in range(10000) %}{% for j in range(10000) %}x{% endfor %}{% endfor %}",
    "{{ 'a' * 1000000000 }}",
    "{{ big * 1000 }}",
    "{{ [0] * 1000000000 }}",
    "{{ 10 ** 10 ** 10 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ '%*d' | format(1000000000, 1) }}",
    "{{ '%.1000000000f' | format(1.0) }}",
    "{{ 'a'.ljust(1000000000) }}",
    "{{ 'a'.center(1000000000) }}",
    "{{ 'a'.zfill(1000000000) }}",
    "{{ '{:>1000000000}'.format(1) }}",
    "{{ 'a' | center(1000000000) }}",
    "{{ 'a\nb' | indent(1000000000) }}",
    "{{ 'a' | replace('a', big) | replace('x', big) }}",
    "{{ big | replace('', big) }}",
    "{{ range(10000) | join(big) }}",
    "{{ [1] | batch(1000000000, 0) | list }}",
    "{{ [1] | slice(1000000000, 0) | list }}",
    "{{ 5 | round(-1000000000) }}",
    "{{ 9007199254740993 * 9007199254740993 * 9007199254740993 }}",
    "".join(f"{{% set a{n + 1} = a{n} ~ a{n} %}}" for n in range(60)) + "{{ a60 }}",
    "".join(f"{{% set a{n + 1} = a{n} + a{n} %}}" for n in range(60)) + "{{ a60 }}",
    "".join(f"{{% set a{n + 1} = [a{n}, a{n}] %}}" for n in range(40)) + "{{ a40 }}",
    "".join(f"{{% set a{n + 1} = [a{n}, a{n}] %}}" for n in range(40)) + "{{ a40 | string }}",
    "".join(f"{{% set a{n + 1} = [a{n}, a{n}] %}}" for n in range(40)) + "{{ a40 == a40 }}",
    "".join(
        f"{{% set a{n + 1} = (a{n}, a{n}) %}}{{% set b{n + 1} = (b{n}, b{n}) %}}" for n in range(40)
    )
    + "{{ a40 == b40 }}",
    "{{ {'a': [1]} }}",
    "".join(f"{{% set l{n + 1} = l{n} + l{n} %}}" for n in range(30)) + "{{ l30 == m }}",
    "{{ l }}{{ l ~ l }}",
    "{{ l | string }}",
    "{{ '%s' % l }}",
    "{{ [l] | join }}",
    "{% for i in range(10000) %}{{ big | urlencode }}{% endfor %}",
    "{% for i in range(10000) %}{% set a = big | replace('x', 'y') %}{% endfor %}",
    "{% for i in range(10000) %}{% set a = big | list | sort | unique %}{% endfor %}",
]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("source", RUNAWAYS, ids=lambda source: source[:60])
def test_a_runaway_template_is_stopped(tmp_path: Path, source: str) -> None:
    """T6: one second of the processor, one megabyte, however it is written."""
    memory = peak_memory_kib()
    try:
        catalog = load(tmp_path, source)
    except SettingsError:
        pass
    else:
        variables: dict[str, Any] = {"big": BIG, "a0": "x", "b0": "x", "l0": [1], "l": [[1]]}
        result = catalog.render("t", "en", variables)
        assert isinstance(result, Failure), len(result.text)
        assert result.disposition == "reject"
    assert peak_memory_kib() - memory < 200 * 1024


def peak_memory_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise AssertionError("no VmHWM")


def test_the_output_is_limited_to_the_byte(tmp_path: Path) -> None:
    bounds = Bounds(output_bytes=1000)
    catalog = load(tmp_path, "{{ x }}", bounds=bounds)
    assert isinstance(catalog.render("t", "en", {"x": "a" * 999}), Rendered)
    for too_long in ("a" * 1000, "ä" * 500):  # with the subject's one
        result = catalog.render("t", "en", {"x": too_long})
        assert isinstance(result, Failure)
        assert result.error_class == TOO_LARGE


def test_all_parts_share_one_limit(tmp_path: Path) -> None:
    catalog = load(tmp_path, "{{ x }}", html="{{ x }}", bounds=Bounds(output_bytes=1000))
    result = catalog.render("t", "en", {"x": "a" * 600})
    assert isinstance(result, Failure)
    assert result.detail == "t/en/html.tmpl: makes too much"


def test_the_time_limit_is_the_processors(tmp_path: Path) -> None:
    """A clock of its own, so that the limit can be seen without waiting for it.

    The steps are counted as well: where no time passes at all, a loop still ends.
    """
    load(tmp_path, "{% for i in range(100) %}{% endfor %}")
    from homing.content.templates.loading import load_entries

    ticks = iter(range(10_000))
    entries = load_entries(tmp_path, "templates")
    slow = Catalog(entries, Bounds(), cpu_s=lambda: float(next(ticks)))
    result = slow.render("t", "en", {})
    assert isinstance(result, Failure)
    assert result.error_class == TOO_SLOW
    still = Catalog(entries, Bounds(steps=100), cpu_s=lambda: 0.0)
    assert isinstance(still.render("t", "en", {}), Failure)
    patient = Catalog(entries, Bounds(steps=200), cpu_s=lambda: 0.0)
    assert isinstance(patient.render("t", "en", {}), Rendered)


def test_a_template_cannot_change_its_variables(tmp_path: Path) -> None:
    variables = {"x": [1, 2], "d": {"a": 1}}
    load(tmp_path, "{% set x = 5 %}{{ x }}{{ d.a }}").render("t", "en", variables)
    assert variables == {"x": [1, 2], "d": {"a": 1}}
