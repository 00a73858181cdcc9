"""Locales: BCP 47, one spelling each (M-006, M-076, M-116)."""

import pytest

from homing.content.locales import canonical_locale
from homing.domain.errors import InvalidRequest


@pytest.mark.parametrize(
    ("given_text", "canonical"),
    [
        ("en", "en"),
        ("EN", "en"),
        ("en-us", "en-US"),
        ("EN_us", "en-US"),
        (" fr-ca ", "fr-CA"),
        ("zh-hant-tw", "zh-Hant-TW"),
        ("SR-latn-RS", "sr-Latn-RS"),
        ("es-419", "es-419"),
        ("de-ch-1996", "de-CH-1996"),
        ("sl-ROZAJ-biske", "sl-rozaj-biske"),
        ("de-DE-u-co-PHONEBK", "de-DE-u-co-phonebk"),
        ("en-x-Ours", "en-x-ours"),
        ("zh-cmn-hans-cn", "zh-cmn-Hans-CN"),
    ],
)
def test_a_locale_has_one_spelling(given_text: str, canonical: str) -> None:
    assert canonical_locale(given_text) == canonical
    assert canonical_locale(canonical) == canonical


@pytest.mark.parametrize(
    "text",
    ["", " ", "e", "english-language", "en-", "-en", "en--US", "en US", "../en", "en/../..", "en\n",
     "e\u0306n", "C.UTF-8", "*", "en-US-", "12", "en-u", "x-ours", "en" + "-abcdef" * 6],
    ids=ascii,
)  # fmt: skip
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^locale: "):
        canonical_locale(text)
