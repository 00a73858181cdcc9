"""The delivery log as other programs leave it: longer, shorter, or another file."""

from __future__ import annotations

from pathlib import Path

from homing_systems.verdicts.delivery_log import DeliveryLog


def line(session_id: str) -> str:
    return f"2026-01-01T00:00:00Z DELIVERED session={session_id} to=a@b tier=full attempt=0\n"


def test_lines_are_read_on_from_where_the_last_look_ended(tmp_path: Path) -> None:
    """O-062: a line that is still being written is none."""
    path = tmp_path / "delivery.log"
    log = DeliveryLog(path)
    assert not log.holds("cs_1")

    path.write_text(line("cs_1") + line("cs_2")[:-1])
    assert log.holds("cs_1")
    assert not log.holds("cs_2")
    with path.open("a") as file:
        file.write("\n")
    assert log.holds("cs_2")
    assert not log.holds("cs_")


def test_a_log_that_was_cut_or_replaced_is_read_anew(tmp_path: Path) -> None:
    """O-131"""
    path = tmp_path / "delivery.log"
    log = DeliveryLog(path)
    path.write_text(line("cs_1") + line("cs_2"))
    assert log.holds("cs_2")

    path.write_text(line("cs_3"))
    assert log.holds("cs_3")
    path.rename(tmp_path / "delivery.log.1")
    path.write_text(line("cs_4") * 5)
    assert log.holds("cs_4")
    path.unlink()
    assert not log.holds("cs_4")
