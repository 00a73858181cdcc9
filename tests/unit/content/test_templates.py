"""Templates: M-007, M-030, M-140 to M-152, X-59."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from homing.content.mime import build
from homing.content.templates import Catalog, Rendered
from homing.content.templates.catalog import (
    FAILED,
    NOT_FOUND,
    SUBJECT_INVALID,
    VARIABLE_MISSING,
)
from homing.domain.errors import SettingsError
from homing.domain.failure import Failure
from homing.domain.message import Email

EXAMPLES = Path(__file__).parent / "templates"
WELCOME: dict[str, Any] = {
    "name": "Ann",
    "trips": [{"city": "Rome", "price": 12}, {"city": "Oslo", "price": 3.456}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES, tmp_path / "templates"))


def rendered(result: Rendered | Failure) -> Rendered:
    assert isinstance(result, Rendered), result
    return result


def failed(result: Rendered | Failure) -> Failure:
    assert isinstance(result, Failure), result
    assert result.disposition == "reject"
    return result


def one(folder: Path, *, subject: str = "s", text: str = "t", html: str | None = None) -> Catalog:
    """A catalog of one template `t`."""
    place = folder / "one" / "t" / "en"
    place.mkdir(parents=True, exist_ok=True)
    (place / "subject.tmpl").write_text(subject)
    (place / "text.tmpl").write_text(text)
    if html is not None:
        (place / "html.tmpl").write_text(html)
    return Catalog.load(folder / "one")


def test_subject_text_and_html_are_rendered() -> None:
    result = rendered(Catalog.load(EXAMPLES).render("welcome", "en", WELCOME))
    assert result.subject == "Welcome, Ann"
    assert result.text == (
        "Hello Ann,\n\nYour trips:\n1. Rome, 12.00 EUR;\n2. Oslo, 3.46 EUR\nSee you soon."
    )
    assert result.html is not None
    assert '<p class="full">Hello Ann,</p>' in result.html


def test_html_is_optional() -> None:
    """M-141."""
    assert rendered(Catalog.load(EXAMPLES).render("welcome", "de", WELCOME)).html is None


@pytest.mark.parametrize(
    ("asked", "found", "fallback"),
    [
        ("en", "en", False),
        (None, "en", False),
        ("de", "de", False),
        ("fr-CA", "fr-CA", False),
        ("FR_ca", "fr-CA", False),
        ("fr", "en", True),
        ("de-AT", "en", True),
        ("ja", "en", True),
    ],
)
def test_the_exact_locale_or_else_english(asked: str | None, found: str, fallback: bool) -> None:
    """M-144 to M-147: no steps such as de-AT, de, en."""
    result = rendered(Catalog.load(EXAMPLES).render("welcome", asked, WELCOME))
    assert (result.locale, result.locale_fallback_used) == (found, fallback)


def test_a_result_can_be_stored_and_made_into_a_mail() -> None:
    """X-59: it is made once; M-147: the fallback is stored with it."""
    result = rendered(Catalog.load(EXAMPLES).render("welcome", "fr", WELCOME))
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=Rendered)
    assert stored == result
    asked = Email(to="a@b.co", template_id="welcome", locale="fr", variables=WELCOME)
    mail = stored.into(asked)
    assert (mail.subject, mail.text, mail.template_id) == (result.subject, result.text, None)
    assert b"Welcome, Ann" in build(mail, message_id="<1@b.co>", date_ms=0, sender="a@b.co")


def test_rendering_twice_gives_the_same() -> None:
    """M-007."""
    catalog = Catalog.load(EXAMPLES)
    assert catalog.render("welcome", "en", WELCOME) == catalog.render("welcome", "en", WELCOME)
    assert Catalog.load(EXAMPLES).render("welcome", "en", WELCOME) == catalog.render(
        "welcome", "en", WELCOME
    )


def test_the_catalog_is_read_once(folder: Path) -> None:
    """M-015, M-143: files may change or go; a restart sees the change (M-031)."""
    catalog = Catalog.load(folder)
    before = rendered(catalog.render("auth.login_code", "en", {"code": "123456"}))
    (folder / "auth.login_code/en/text.tmpl").write_text("changed {{ code }}")
    restarted = rendered(Catalog.load(folder).render("auth.login_code", "en", {"code": "1"}))
    shutil.rmtree(folder)
    assert catalog.render("auth.login_code", "en", {"code": "123456"}) == before
    assert restarted.text == "changed 1"


@pytest.mark.parametrize("part", ["subject.tmpl", "text.tmpl"])
def test_required_templates_must_be_there(folder: Path, part: str) -> None:
    """M-142."""
    Catalog.load(folder, required=["auth.login_code"])
    (folder / "auth.login_code/en" / part).unlink()
    with pytest.raises(SettingsError, match=rf"auth\.login_code/en/{part}: is missing"):
        Catalog.load(folder, required=["auth.login_code"])
    shutil.rmtree(folder / "auth.login_code")
    with pytest.raises(SettingsError, match=r"MAIL_TEMPLATE_DIR: auth\.login_code/en"):
        Catalog.load(folder, required=["auth.login_code"], setting="MAIL_TEMPLATE_DIR")
    Catalog.load(folder)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{{ name", r"welcome/en/text\.tmpl:1: "),
        ("a\nb\n{% if %}", r"welcome/en/text\.tmpl:3: "),
        ("\n{% include 'x' %}", r"welcome/en/text\.tmpl:2: there is no _shared/x for text"),
        ("\n{% import 'x' as y %}", r"welcome/en/text\.tmpl:2: Import is not part of mail templ"),
        ("a\n\0", r"welcome/en/text\.tmpl:2: holds the control character U\+0000"),
        ("{{ x|nosuch }}", r"welcome/en/text\.tmpl:1: there is no filter 'nosuch'"),
        ("x" * 300_000, r"welcome/en/text\.tmpl: is larger"),
    ],
)
def test_a_broken_template_stops_the_start_and_names_its_place(
    folder: Path, source: str, problem: str
) -> None:
    """M-030."""
    (folder / "welcome/en/text.tmpl").write_text(source)
    with pytest.raises(SettingsError, match=problem):
        Catalog.load(folder)


def test_files_in_odd_places_stop_the_start(folder: Path) -> None:
    with pytest.raises(SettingsError, match="is not a folder"):
        Catalog.load(folder / "nowhere")
    (folder / "README.md").write_text("what these are")
    (folder / ".hidden").mkdir()
    Catalog.load(folder)
    (folder / "welcome/en/txt.tmpl").write_text("misspelt")
    with pytest.raises(SettingsError, match=r"welcome/en/txt\.tmpl: is not a part"):
        Catalog.load(folder)
    (folder / "welcome/en/txt.tmpl").unlink()
    (folder / "welcome/en/text.tmpl").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match=r"welcome/en/text\.tmpl: is not UTF-8"):
        Catalog.load(folder)


@pytest.mark.parametrize("name", ["english_language", "en--us", "DE"])
def test_a_locale_folder_is_a_locale_and_there_once(folder: Path, name: str) -> None:
    shutil.copytree(folder / "welcome/en", folder / "welcome" / name)
    with pytest.raises(SettingsError, match=r"language tag|is there twice"):
        Catalog.load(folder)


def test_subject_and_text_are_not_escaped_and_html_is(tmp_path: Path) -> None:
    """M-148, M-149; a value is data, never a template."""
    catalog = one(
        tmp_path, subject="{{ x }}", text="{{ x }}", html='<p title="{{ x }}">{{ x }}</p>'
    )
    value = """<b>&'"{{ 7 * 7 }}{% raw %}"""
    result = rendered(catalog.render("t", "en", {"x": value}))
    assert result.subject == result.text == value
    escaped = "&lt;b&gt;&amp;&#39;&#34;{{ 7 * 7 }}{% raw %}"
    assert result.html == f'<p title="{escaped}">{escaped}</p>'


@pytest.mark.parametrize(
    "text",
    [
        "{{ x }}", "{{ a.x }}", "{{ a['x'] }}", "{{ a.x.y }}", "{% for i in x %}{% endfor %}",
        "{% if x %}{% endif %}", "{{ x ~ 'b' }}", "{{ x | upper }}", "{{ null }}",
        "{{ [] | first }}", "{{ 'a' ~ null }}", "{{ x + 1 }}", "{{ [1] | join(x) }}",
    ],
)  # fmt: skip
def test_a_missing_variable_has_its_own_word(tmp_path: Path, text: str) -> None:
    """M-150: a null is as missing as nothing at all."""
    failure = failed(one(tmp_path, text=text).render("t", "en", {"a": {}, "null": None}))
    assert failure.error_class == VARIABLE_MISSING == "template_variable_missing"
    assert failure.detail.startswith("t/en/text.tmpl: ")


def test_the_missing_variable_is_named(tmp_path: Path) -> None:
    failure = failed(one(tmp_path, text="{{ order.total }}").render("t", "en", {"order": {}}))
    assert failure.detail == "t/en/text.tmpl: the variable total is missing"


def test_an_absent_template_has_its_own_word() -> None:
    """M-151."""
    catalog = Catalog.load(EXAMPLES)
    for template_id, locale in (("nix", "en"), ("../welcome", "en"), ("welcome", "not a locale")):
        failure = failed(catalog.render(template_id, locale, {}))
        assert failure.error_class == NOT_FOUND == "template_not_found"


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\0"])
def test_a_subject_of_two_lines_is_refused(tmp_path: Path, separator: str) -> None:
    """M-152."""
    catalog = one(tmp_path, subject="Hello {{ name }}\n")
    failure = failed(catalog.render("t", "en", {"name": f"Ann{separator}Bcc: eve@example.org"}))
    assert failure.error_class == SUBJECT_INVALID == "template_subject_invalid"
    assert rendered(catalog.render("t", "en", {"name": "Ann"})).subject == "Hello Ann"


def test_a_subject_too_long_is_refused(tmp_path: Path) -> None:
    failure = failed(one(tmp_path, subject="{{ x }}").render("t", "en", {"x": "x" * 999}))
    assert failure.error_class == SUBJECT_INVALID


@pytest.mark.parametrize(
    "text",
    ["{{ code + 1 }}", "{{ 1 / 0 }}", "{{ code | round }}", "{{ code * 3 }}",
     "{{ [code] | sort(code) }}", "{{ {}[code] }}", "{{ {'a': 1}.get(code, 1)[code] }}",
     "{{ code.x }}", "{{ '%d' | format(code) }}", "{{ '%(x)s' % code }}", "{{ [][code] }}",
     "{{ code | truncate(code) }}"],
)  # fmt: skip
def test_no_failure_quotes_a_variable(tmp_path: Path, text: str) -> None:
    """M-078: a login code must not reach logs or operators through an error."""
    code = "canary-493021"
    catalog = one(tmp_path, text=text)
    failure = failed(catalog.render("t", "en", {"code": code}))
    assert failure.error_class in {FAILED, VARIABLE_MISSING}
    assert "canary" not in repr(failure)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{{ order.items }}", "mine"),
        ("{{ a ~ '-' ~ n }}", "Abc-3"),
        ("{{ a | upper | truncate(2, '.') }}", "A."),
        ("{{ a.upper() }}{{ a.startswith('A') }}", "ABCTrue"),
        ("{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "x=1;y=2;"),
        ("{% for i in range(3) %}{{ loop.cycle('a', 'b') }}{% endfor %}", "aba"),
        ("{% for i in l if i > 1 %}{{ i }}{{ loop.length }}{% else %}none{% endfor %}", "21"),
        ("{{ l | join(', ') }} {{ l | length }} {{ l | first }} {{ l | last }}", "1, 2 2 1 2"),
        ("{{ l | max }}{{ l | min }}{{ l | sort(reverse=true) | join }}", "2121"),
        ("{{ 'a\nb' | indent(2) }}", "a\n  b"),
        ("{{ missing | default('x') }}{{ 'y' if missing is defined else 'z' }}", "xz"),
        ("{{ '%05.1f' % 3.14159 }} {{ 2 * 3 + 1 }} {{ 7 // 2 }} {{ 7 % 4 }}", "003.1 7 3 3"),
        ("{{ 2.675 | round(1) }} {{ 'a' in a or 'b' in a }}", "2.7 True"),
        (
            "{% set x = n + 1 %}{{ x }} {{ l[0] }} {{ a[:2] }} {{ a | replace('b', 'x') }}",
            "4 1 Ab Axc",
        ),
    ],
)
def test_what_the_language_has(tmp_path: Path, text: str, result: str) -> None:
    variables = {"a": "Abc", "n": 3, "l": [1, 2], "d": {"x": 1, "y": 2}, "order": {"items": "mine"}}
    assert rendered(one(tmp_path, text=text).render("t", "en", variables)).text == result


def test_the_locales_of_each_template_can_be_listed() -> None:
    assert Catalog.load(EXAMPLES).locales() == {
        "auth.login_code": ["en"],
        "welcome": ["de", "en", "fr-CA"],
    }
