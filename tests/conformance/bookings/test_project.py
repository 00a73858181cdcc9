"""Rows about the project itself, and that every row of the document has a test."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from pathlib import Path

from homing.providers.stub import stub_from_url
from homing_systems.bookings import outbox, payloads
from homing_systems.bookings.route import POLL_S, bookings_route
from tools.conformance import ROWS, covered_rows, without_test

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "systems/src/homing_systems/bookings"


def test_every_row_has_a_test() -> None:
    assert covered_rows("bookings").keys() <= set(ROWS["bookings"])
    assert without_test("bookings") == []


def test_the_worker_looks_every_thirty_seconds() -> None:
    """B-004"""
    route = bookings_route(stub_from_url("stub:"), sender="host@example.org")

    assert route.poll_s == POLL_S == 30.0


def test_each_check_is_one_command_from_the_root() -> None:
    """B-101, B-102, B-103"""
    makefile = (ROOT / "Makefile").read_text()
    ci = "".join(path.read_text() for path in (ROOT / ".ci").iterdir())

    for target in ("test", "check"):
        assert f"\n{target}: " in makefile
        assert f"make {target}\n" in ci


def test_new_tests_are_part_of_the_run() -> None:
    """B-099"""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert "tests" in settings["tool"]["pytest"]["testpaths"]


def test_the_outbox_needs_no_package_of_its_own() -> None:
    """B-118"""
    project = tomllib.loads((ROOT / "systems/pyproject.toml").read_text())["project"]

    assert [name.partition(">")[0] for name in project["dependencies"]] == [
        "fastapi",
        "homing[graph,mail,postgres,web]",
    ]
    for path in PACKAGE.glob("*.py"):
        assert "import fastapi" not in path.read_text()
        assert "from fastapi" not in path.read_text()


def test_the_plug_stays_small() -> None:
    """What is true for bookings alone, without the example application."""
    files = [path for path in PACKAGE.rglob("*.*") if path.suffix in (".py", ".sql")]
    own = [path for path in files if "app" not in path.relative_to(PACKAGE).parts]

    assert sum(len(path.read_text().splitlines()) for path in own) <= 600


def test_the_functions_of_the_document_have_its_parameters() -> None:
    """B-120"""
    expected: dict[Callable[..., object], list[str]] = {
        outbox.compute_next_retry: ["now_ms", "attempts"],
        outbox.create_outbox_entry_from_payload: ["entry_id", "payload", "now_ms"],
        outbox.insert_outbox_entry: ["service", "entry"],
        outbox.get_pending_entries: ["service", "now_ms"],
        outbox.mark_sent: ["service", "entry_id"],
        outbox.mark_retry: ["service", "entry_id", "next_retry_at_ms", "last_error"],
        outbox.mark_failed: ["service", "entry_id", "last_error"],
        outbox.list_outbox_entries: ["service", "limit"],
        outbox.get_outbox_counts: ["service"],
        outbox.retry_outbox_entry: ["service", "entry_id"],
        outbox.dismiss_outbox_entry: ["service", "entry_id"],
        payloads.build_confirmation_payload: ["config", "booking", "video_link"],
        payloads.build_cancellation_payload: [
            "config",
            "booking",
            "cancelled_by_host",
            "cancelled_at_ms",
        ],
    }
    for function, names in expected.items():
        assert list(inspect.signature(function).parameters) == names


def test_the_plan_has_its_four_living_sections() -> None:
    """B-121"""
    plan = (ROOT / "systems/docs/conformance/bookings.md").read_text()

    for section in (
        "Progress",
        "Surprises & Discoveries",
        "Decision Log",
        "Outcomes & Retrospective",
    ):
        assert f"\n## {section}\n" in plan
