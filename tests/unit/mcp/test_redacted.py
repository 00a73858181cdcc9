"""What an agent sees of a payload."""

import msgspec

from homing.domain.delivery import Content
from homing.domain.message import Email, encode_message
from homing.mcp.redacted import MAX_ITEMS, payload_of, redacted


def test_addresses_and_what_is_named_like_a_secret_are_left_out() -> None:
    value = {
        "customer": "ann@example.org",
        "apiKey": 4711,
        "nested": [{"password": "x", "session_token": None, "note": "call me"}],
        "ann@example.org": True,
    }

    assert redacted(value) == {
        "customer": "[address]",
        "apiKey": "[redacted]",
        "nested": [{"password": "[redacted]", "session_token": None, "note": "call me"}],
        "[address]": True,
    }


def test_a_field_cannot_pass_for_the_name_of_a_record() -> None:
    shown = redacted({"event_id": "ann@example.org", "parent_id": "0f8e-1"})

    assert shown == {"event_id": "[address]", "parent_id": "0f8e-1"}


def test_what_is_long_or_deep_is_cut() -> None:
    deep: object = "x"
    for _ in range(100):
        deep = [deep]

    assert "…" in str(redacted(deep))
    assert redacted(list(range(500)))[-1] == "… 500 in all"
    assert len(redacted({str(number): 1 for number in range(500)})) == MAX_ITEMS + 1
    assert len(redacted("x" * 10_000)) == 500


def test_a_payload_is_shown_only_up_to_a_size() -> None:
    small = Content(payload=encode_message(Email(to="ann@example.org", subject="Hi", text="t")))
    large, huge = (
        Content(payload=msgspec.json.encode({"kind": "event", "type": "t", "data": data}))
        for data in (["y" * 490] * 45, "y" * 200_000)
    )

    assert payload_of(small)["to"] == ["[address]"]
    assert "too long to show: 22" in payload_of(large)
    assert "too long to show: 200" in payload_of(huge)
    assert payload_of(Content(payload=b"\xff\x00")) == {"bytes": 2}
    assert payload_of(None) is None
