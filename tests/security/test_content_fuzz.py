"""Fuzz queues: address parser, message builder, template renderer. Short unless asked for more.

HOMING_FUZZ_EXAMPLES=100000 makes a long run of it.
"""

import email.parser
import email.policy
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from homing.content.addresses import normalise, parse
from homing.content.mime import build
from homing.content.templates import Catalog, Rendered
from homing.content.templates.environment import TemplateEnvironment
from homing.content.templates.language import NotInLanguage
from homing.content.templates.layouts import File
from homing.content.validation import envelope_of, validate_email
from homing.domain.errors import InvalidRequest, SettingsError
from homing.domain.failure import Failure
from homing.domain.message import Attachment, Email, Invitation

EXAMPLES = int(os.environ.get("HOMING_FUZZ_EXAMPLES", "200"))
fuzz = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
anything = st.text(alphabet=st.characters(), max_size=60)
# Split at the bar: what has a meaning somewhere on an address's way.
TOKENS = (
    'ann|@|example.org|<|>|"|\\|,|;|:|.| |\r\n|\n|\t|\x00|\u2028|\u202e|ä|漢|ß|\ud800|xn--|-'
    "|[127.0.0.1]|(x)|=?utf-8?q?|?=|Bcc: |--|\x85|%|!|aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)
tokens = st.lists(st.sampled_from(TOKENS.split("|")), max_size=12).map("".join)
texts = st.one_of(anything, tokens)


def assert_harmless(refusal: InvalidRequest) -> None:
    """What is shown to the caller and in logs does not carry the attack on."""
    assert not CONTROL.search(str(refusal))


@fuzz
@given(texts)
def test_an_address_is_refused_or_safe(text: str) -> None:
    """T2: what is accepted has one reading, and its spec can go on the wire as it is."""
    try:
        address = parse(text)
    except InvalidRequest as refusal:
        assert_harmless(refusal)
        return
    assert not CONTROL.search(address.spec + address.name)
    assert not re.search(r"[<>\r\n]", address.spec)
    local, _, domain = address.spec.rpartition("@")
    assert re.fullmatch(r"[a-z0-9.-]+", domain)
    assert len(local.encode()) <= 64
    assert normalise(address.spec) == address.spec
    assert parse(str(address)) == address


header_names = st.one_of(st.sampled_from(["X-A", "References", "Subject", "Bcc", "List-Id"]), texts)
files = st.builds(
    Attachment,
    filename=texts,
    content=st.binary(max_size=80),
    content_type=st.one_of(
        st.sampled_from(["application/pdf", "message/rfc822", "text/csv; a=b", "multipart/mixed"]),
        texts,
    ),
)
mails = st.builds(
    Email,
    to=st.lists(st.one_of(st.just("a@b.co"), texts), max_size=3),
    cc=st.lists(texts, max_size=1),
    bcc=st.lists(texts, max_size=1),
    reply_to=st.lists(texts, max_size=1),
    sender=st.one_of(st.none(), texts),
    subject=texts,
    text=texts,
    html=st.one_of(st.none(), texts),
    headers=st.dictionaries(header_names, texts, max_size=2),
    attachments=st.lists(files, max_size=1),
    invitation=st.one_of(st.none(), st.builds(Invitation, texts, texts)),
)
WRITTEN = {"from", "to", "cc", "reply-to", "subject", "date", "message-id", "mime-version"}


@fuzz
@given(mails, st.booleans())
def test_a_mail_is_refused_or_has_exactly_its_headers(mail: Email, checked: bool) -> None:
    """T1, T3: with the gate or without it."""
    try:
        if checked:
            mail = validate_email(mail)
            assert len(envelope_of(mail)) >= 1
        data = build(mail, message_id="<1@b.co>", date_ms=0, sender="Desk <desk@b.co>")
    except InvalidRequest as refusal:
        assert_harmless(refusal)
        return
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n", data)
    assert max(map(len, data.split(b"\r\n"))) <= 998
    read = email.parser.BytesParser(policy=email.policy.default).parsebytes(data)
    names = [name.lower() for name in read if not name.lower().startswith("content-")]
    meant = WRITTEN | {name.lower() for name in mail.headers}
    assert set(names) <= meant
    assert len(names) == len(set(names)) or not checked


# Split at the semicolon.
PIECES = (
    "{{;}};{%;%};{#;#};x;y;.;|;~;+;*;%;(;);[;];{;};';\"; ; if ; for i in ; endfor ; endif ; else "
    "; set a = ;range;9;10**9;upper;join;replace;default;__class__;loop;self;,;=;<p>;<script>"
    ';</script>;<a href=;"https://;<!--;-->;ä;\n;is defined;items();format;:'
)
pieces = st.sampled_from(PIECES.split(";"))
soups = st.lists(pieces, max_size=25).map("".join)
expressions = st.lists(pieces, max_size=8).map(lambda parts: "{{ " + "".join(parts) + " }}")
sources = st.one_of(
    soups, expressions, st.lists(st.one_of(expressions, soups), max_size=3).map("".join)
)
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-99, 99), st.floats(allow_nan=False), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    ),
    max_leaves=6,
)


@fuzz
@given(sources, st.booleans())
def test_a_template_is_refused_or_compiled(source: str, html: bool) -> None:
    def find(name: str) -> File:
        raise NotInLanguage("there are no others", 1)

    environment = TemplateEnvironment(html=html)
    try:
        environment.load(environment.read(source, "fuzz"), find)
    except NotInLanguage:
        return


@fuzz
@given(sources, st.one_of(st.none(), sources), st.dictionaries(st.sampled_from("xy"), values))
def test_a_rendering_is_always_a_value(
    text: str, html: str | None, variables: dict[str, Any]
) -> None:
    """T6: whatever the template and the data, nothing is raised and the limits hold."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "t" / "en"
        place.mkdir(parents=True)
        (place / "subject.tmpl").write_text("{{ x | default('s') }}")
        (place / "text.tmpl").write_text(text)
        if html is not None:
            (place / "html.tmpl").write_text(html)
        try:
            catalog = Catalog.load(folder)
        except SettingsError:
            return
    result = catalog.render("t", "en", variables)
    assert isinstance(result, Rendered | Failure)
    assert catalog.render("t", "en", variables) == result
    if isinstance(result, Rendered):
        assert not CONTROL.search(result.subject)
