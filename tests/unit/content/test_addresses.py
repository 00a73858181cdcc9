"""Addresses: our own grammar (T2), other scripts (T16), one normal form (X-31)."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homing.content.addresses import Address, is_plain, normalise, parse
from homing.domain.errors import InvalidRequest
from homing.providers.smtp.wire import address_problem

# In a file of its own: many of them look like something that they are not.
TABLE = json.loads((Path(__file__).parent / "addresses.json").read_text())
NORMAL_FORMS: dict[str, str] = {
    text: normal for group in TABLE["normal forms"].values() for text, normal in group.items()
}
REFUSED: list[str] = [text for group in TABLE["refused"].values() for text in group]


@pytest.mark.parametrize(("given_text", "normal"), NORMAL_FORMS.items())
def test_an_address_has_one_normal_form(given_text: str, normal: str) -> None:
    """T16, X-31, M-076: trimmed, its domain in lower-case ASCII, the local part as it was."""
    assert normalise(given_text) == normal
    assert normalise(normal) == normal
    assert parse(given_text) == Address(normal)


@pytest.mark.parametrize("normal", sorted(set(NORMAL_FORMS.values())))
def test_what_is_accepted_at_intake_can_be_sent(normal: str) -> None:
    assert address_problem(normal) is None


@pytest.mark.parametrize("text", REFUSED, ids=ascii)
def test_whatever_is_not_clearly_one_address_is_refused(text: str) -> None:
    """T2, T16: nothing is repaired in silence, and the field is named."""
    with pytest.raises(InvalidRequest) as refusal:
        parse(text, "to[1]")
    assert refusal.value.field == "to[1]"


_PARTS = st.lists(st.sampled_from(["a", "b9", "-", "--", ".", "+", "Z", "7", "é"]), max_size=6)


@settings(max_examples=500)
@given(local=_PARTS, domain=_PARTS, filler=st.integers(0, 70))
def test_the_quick_yes_is_one_of_the_whole_grammar(
    local: list[str], domain: list[str], filler: int
) -> None:
    """T2: it may say no to a good address, and then the grammar is asked; never yes to another."""
    text = f"{''.join(local)}@{''.join(domain)}{'x' * filler}.org"
    assert not is_plain(text) or normalise(text) == text


def test_ordinary_addresses_get_the_quick_yes() -> None:
    assert is_plain("ann.lee+news@mail-1.example.co.uk")
    assert not is_plain(f"a@{'x' * 64}.org")


def test_the_list_of_addresses_is_as_long_as_promised() -> None:
    assert len(NORMAL_FORMS) + len(REFUSED) >= 200


@pytest.mark.parametrize("value", [None, 1, b"ann@example.org", ["ann@example.org"]])
def test_an_address_is_text(value: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^bcc\[0\]: must be text"):
        parse(value, "bcc[0]")  # type: ignore[arg-type]  # a caller without types


@pytest.mark.parametrize(
    ("text", "name", "shown"),
    [
        ("Ann <ann@example.org>", "Ann", "Ann <ann@example.org>"),
        ("Ann Lee<ann@Example.org>", "Ann Lee", "Ann Lee <ann@example.org>"),
        ('"Ann" <ann@example.org>', "Ann", "Ann <ann@example.org>"),
        ('"Lee, Ann" <ann@example.org>', "Lee, Ann", '"Lee, Ann" <ann@example.org>'),
        (r'"Ann \"X\" Lee" <ann@example.org>', 'Ann "X" Lee', r'"Ann \"X\" Lee" <ann@example.org>'),
        (r'"A\\B" <ann@example.org>', r"A\B", r'"A\\B" <ann@example.org>'),
        ("Dr. O'Hara (Sales) <ann@example.org>", "Dr. O'Hara (Sales)", None),
        ('"bob@bank.example" <ann@example.org>', "bob@bank.example", None),
        ("Ännchen 漢字 🙂 <ann@example.org>", "Ännchen 漢字 🙂", None),
        (
            "\u05d0\u05e0\u05d4\u200f (\u05d0) <ann@example.org>",
            "\u05d0\u05e0\u05d4\u200f (\u05d0)",
            None,
        ),
        ("\u200eAnn\u061c <ann@example.org>", "\u200eAnn\u061c", None),
        ("<ann@example.org>", "", "ann@example.org"),
        ('"" <ann@example.org>', "", "ann@example.org"),
    ],
)
def test_a_display_name_is_kept_apart(text: str, name: str, shown: str | None) -> None:
    address = parse(text)
    assert address == Address("ann@example.org", name)
    assert shown is None or str(address) == shown
    assert parse(str(address)) == address


def test_only_a_bare_address_can_be_normalised() -> None:
    with pytest.raises(InvalidRequest, match="email"):
        normalise("Ann <ann@example.org>", "email")


@pytest.mark.parametrize(
    ("text", "needs"), [("ann@bücher.example", False), ("änn@example.org", True)]
)
def test_only_the_local_part_asks_for_smtputf8(text: str, needs: bool) -> None:
    assert parse(text).needs_smtputf8 is needs


def test_a_refusal_does_not_repeat_the_address() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse("secret-canary\n@example.org", "to[0]")
    assert "canary" not in str(refusal.value)


near_addresses = st.text(
    alphabet=st.sampled_from('annb0.-_+@"<>,;:\\ ()[]%!äß漢\u0308\u202e\r\n\x00xn--example.org'),
    max_size=60,
)


@settings(max_examples=500, deadline=None)
@given(st.one_of(near_addresses, st.text(max_size=60), st.emails()))
def test_what_is_accepted_reads_back_as_itself(text: str) -> None:
    try:
        address = parse(text)
    except InvalidRequest:
        return
    assert parse(str(address)) == address
    assert normalise(address.spec) == address.spec
    assert address.spec.isprintable()
    assert address_problem(address.spec) is None
    assert not set(address.spec) & set(
        '<>,;:\\()[]\r\n"' if '"' not in address.spec else "<>,;\r\n"
    )
