"""Fingerprints, tokens, Message-IDs and ids: the same everywhere, and no two alike."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
import uuid
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from homing.domain import identity
from homing.domain.delivery import Recipient
from homing.domain.message import Event, encode_with_spelling
from homing.testing import samples
from tests.unit.domain.lives import addressed, pending

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
parts = st.lists(json_values | st.binary(), max_size=4)
names = st.text(st.sampled_from("ab:/é1"), min_size=1, max_size=5)


def shape(part: object) -> str:
    """What a part is, with its type: True is not 1, and bytes are not text."""
    return repr(part) if not isinstance(part, dict) else repr(sorted(part.items()))


@given(parts, parts)
def test_different_requests_have_different_fingerprints(
    one: list[object], other: list[object]
) -> None:
    same = identity.fingerprint(*one) == identity.fingerprint(*other)

    assert same == (one == other and list(map(shape, one)) == list(map(shape, other)))


def test_parts_do_not_run_into_each_other() -> None:
    lists = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), (b"ab", b"c"), (b"abc",)]

    assert len({identity.fingerprint(*parts) for parts in lists}) == len(lists)


@pytest.mark.parametrize(("text", "raw"), [("x", b'"x"'), (1, b"1"), (None, b"null"), ([], b"[]")])
def test_bytes_are_not_mistaken_for_what_they_spell(text: object, raw: bytes) -> None:
    assert identity.fingerprint(text) != identity.fingerprint(raw)


def test_the_order_of_keys_is_no_difference() -> None:
    assert identity.fingerprint({"a": 1, "b": 2}) == identity.fingerprint({"b": 2, "a": 1})


@given(names, names, names, names)
def test_no_two_intents_of_any_routes_share_a_token_or_a_key(
    route: str, intent: str, other_route: str, other_intent: str
) -> None:
    one = pending(route=route, intent=intent)
    other = pending(route=other_route, intent=other_intent)

    same = (route, intent) == (other_route, other_intent)
    assert (identity.provider_token(one) == identity.provider_token(other)) == same
    assert (identity.message_id(one, "x") == identity.message_id(other, "x")) == same
    keys = {identity.intent_key(route, intent), identity.intent_key(other_route, other_intent)}
    assert (len(keys) == 1) == same


def test_every_attempt_of_one_intent_has_the_same_token() -> None:
    first = pending(intent="order-1")
    later = pending(
        intent="order-1", attempts_spent=4, attempts_ended=9, cycle=3, stage="notify", version=12
    )

    assert identity.provider_token(first) == identity.provider_token(later)
    assert identity.provider_token(pending()) != identity.provider_token(first)


def test_what_is_left_after_some_have_it_is_another_request_but_the_same_message() -> None:
    whole = addressed("ann@example.org", "bob@example.org")
    rest = pending(
        recipients=(Recipient("ann@example.org", "accepted"), Recipient("bob@example.org"))
    )

    assert identity.provider_token(whole) != identity.provider_token(rest)
    assert identity.message_id(whole, "x.org") == identity.message_id(rest, "x.org")


def test_another_process_comes_to_the_same_token() -> None:
    # A process of its own, with another hash seed: nothing may hang on `hash()` or on order.
    code = (
        "from homing.domain import identity\n"
        "from homing.testing.samples import delivery\n"
        "print(identity.provider_token(delivery('d1', intent='order-1')),"
        " identity.fingerprint('a', {'b': 1, 'a': {'x', 'y', 'z'}}, b'c'))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }

    here = f"{identity.provider_token(pending(intent='order-1'))} " + identity.fingerprint(
        "a", {"b": 1, "a": {"x", "y", "z"}}, b"c"
    )
    assert told == {here}


def test_a_message_id_is_fit_for_a_header() -> None:
    message_id = identity.message_id(pending(intent="häßlich\r\nBcc: x@y.org"), "mail.example.org")

    assert message_id.isascii()
    assert message_id.isprintable()
    assert message_id.startswith("<")
    assert message_id.endswith("@mail.example.org>")


places = st.integers(0, 2**60 - 1)
chances = st.binary(min_size=8, max_size=8)


@given(places, chances)
def test_an_id_is_a_uuid_of_version_seven(place: int, chance: bytes) -> None:
    [text] = identity.ids_from(place, chance)
    made = uuid.UUID(text)

    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == place >> identity.ORDER_BITS
    assert str(made) == text


@given(st.integers(0, 2**60 - 2), chances, chances)
def test_ids_sort_by_their_place_in_time(place: int, one: bytes, other: bytes) -> None:
    first, second = identity.ids_from(place, one + other)

    assert first < second
    assert [first] == identity.ids_from(place, one)
    assert [second] == identity.ids_from(place + 1, other)


def test_ids_of_one_place_differ_by_chance() -> None:
    made = {identity.ids_from(1, number.to_bytes(8, "big"))[0] for number in range(1000)}

    assert len(made) == 1000


def fingerprint_of(route: str, data: object) -> str:
    _, spelling = encode_with_spelling(Event("paid", data))
    return identity.request_fingerprint(identity.request_frame(route), spelling)


numbers = st.integers(-(2**63), 2**64 - 1) | st.sampled_from((0, 1, 10**15, 10**16, 10**19))
texts = st.text("a1\u00e9\u1e69\u0323\u0307e.", max_size=4)
# As names: two spellings of one name in an object are no request that makes sense.
composed = texts.map(lambda text: unicodedata.normalize("NFC", text))
data = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(composed, inner, max_size=3),
    max_leaves=6,
)
routes = st.text("ab1", max_size=3)


@given(st.tuples(routes, data), st.tuples(routes, data))
def test_different_requests_of_any_route_have_different_fingerprints(
    one: tuple[str, object], other: tuple[str, object]
) -> None:
    same = (one[0], as_json(one[1])) == (other[0], as_json(other[1]))

    assert (fingerprint_of(*one) == fingerprint_of(*other)) == same


@given(data, st.sampled_from(("NFC", "NFD")))
def test_another_spelling_of_the_same_data_has_the_same_fingerprint(
    value: object, form: Literal["NFC", "NFD"]
) -> None:
    def respell(given: object) -> object:
        match given:
            case str():
                return unicodedata.normalize(form, given)
            case bool():
                return given
            case int() if int(float(given)) == given:
                return float(given)
            case list():
                return [respell(item) for item in given]
            case dict():
                return {respell(name): respell(item) for name, item in given.items()}
        return given

    assert fingerprint_of("r", respell(value)) == fingerprint_of("r", value)


@dataclass
class Amount:
    cents: float


@pytest.mark.parametrize("value", [(1.0, Amount(2.0)), [1.0, {"cents": 2.0}], [1, {"cents": 2}]])
def test_other_types_that_mean_the_same_have_the_same_fingerprint(value: object) -> None:
    assert fingerprint_of("r", {"a": value}) == fingerprint_of("r", {"a": [1, {"cents": 2}]})


def as_json(value: object) -> str:
    """By the library's own encoder: composed letters, and `1.0` as `1`."""

    def plain(given: object) -> object:
        match given:
            case str():
                return unicodedata.normalize("NFC", given)
            case float() if given.is_integer() and -(2**63) <= given < 2**64:
                return int(given)
            case list():
                return [plain(item) for item in given]
            case dict():
                return {plain(name): plain(item) for name, item in given.items()}
        return given

    return json.dumps(plain(value), sort_keys=True)


def test_an_amended_payload_is_another_request_for_providers_and_receivers() -> None:
    first = samples.delivery("d1", intent="order-1")
    amended = replace(first, payload_no=2)

    assert identity.provider_token(amended) != identity.provider_token(first)
    assert identity.message_id(amended, "x.org") != identity.message_id(first, "x.org")
    assert identity.provider_token(amended) == identity.provider_token(replace(amended, cycle=3))


def test_a_child_made_for_an_amended_parent_is_a_new_intent() -> None:
    parent = samples.delivery("d1")

    assert identity.child_intent(parent, "part") == "part"
    assert identity.child_intent(replace(parent, payload_no=2), "part") != "part"
