"""Records to bytes and back, for every store: JSON, so that an operator can read what is stored."""

from __future__ import annotations

from msgspec import Struct, json

from homing.domain.delivery import Attempt, Change, Delivery, Fact, Key

encode = json.Encoder().encode
"""Any record to bytes. Bytes inside it (payloads, results) become base64."""

decode_delivery = json.Decoder(Delivery).decode
decode_deliveries = json.Decoder(list[Delivery]).decode
decode_attempt = json.Decoder(Attempt).decode
decode_fact = json.Decoder(Fact).decode
decode_fact_value = json.Decoder(dict[str, str | int | float | bool | None]).decode
decode_key = json.Decoder(Key).decode
decode_change = json.Decoder(Change).decode


def encode_text(record: Struct) -> str:
    """As `encode`, for a database column of text."""
    return encode(record).decode()
