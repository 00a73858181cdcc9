"""record layouts: times that sort as text, and records that are exactly what their design says."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from homing.domain.errors import InvalidRequest
from homing.engine.ops.labels import ENGINE_LABELS
from homing.stores.layout import RecordLayout, Stored, iso_utc, ms_from_iso
from homing.testing.samples import delivery

PLAIN = RecordLayout(
    names={"table": "t"},
    fields=("id",),
    labels=ENGINE_LABELS,
    write=lambda stored: {"id": stored.delivery.id},
)


def test_the_order_of_the_texts_is_the_order_in_time() -> None:
    """X-84, B-024"""
    times_ms = [0, 1, 999, 1000, 1_771_840_800_000, 1_771_840_800_001, 253_402_300_799_999]

    texts = [iso_utc(at_ms) for at_ms in times_ms]

    assert texts == sorted(texts)
    assert len({len(text) for text in texts}) == 1
    assert [ms_from_iso(text, "t") for text in texts] == times_ms


@pytest.mark.parametrize(
    "text",
    ["2026-02-23T10:00:00Z", "2026-02-23T11:00:00.000+01:00", "2026-02-23 10:00:00.000000"],
)
def test_a_time_is_read_in_any_zone_and_without_one_as_utc(text: str) -> None:
    """X-85, O-015"""
    assert iso_utc(ms_from_iso(text, "t")) == "2026-02-23T10:00:00.000Z"


@pytest.mark.parametrize("text", ["", "soon", None, 12])
def test_what_is_no_time_is_refused_by_its_field(text: object) -> None:
    """O-015"""
    with pytest.raises(InvalidRequest, match="created_at"):
        ms_from_iso(text, "created_at")


def test_a_record_has_its_fields_and_no_others() -> None:
    """M-169"""
    assert PLAIN.record(Stored(delivery("d1"))) == {"id": "d1"}
    with pytest.raises(AssertionError, match="fields"):
        replace(PLAIN, fields=("id", "status")).record(Stored(delivery("d1")))


def test_a_design_that_only_shows_reads_nothing_back() -> None:
    """M-169"""
    with pytest.raises(InvalidRequest, match="cannot be adopted"):
        PLAIN.parse({"id": "d1"})
