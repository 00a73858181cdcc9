"""Input that no page of ours makes: it is refused by name, and is never an error of ours or of the
store, which would alarm people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.unit.web.served import Served, homing_serve

QUERIES = (
    "/bulk?" + "a=1&" * 300,
    "/bulk/chosen?" + "a=1&" * 300,
    "/bulk/chosen?verb=dismiss&refused=%C2%B2",
    "/bulk/chosen?verb=dismiss&back=" + "a%3D1%26" * 300,
    "/bulk?verb=dismiss&id=%00",
    "/bulk/chosen?verb=dismiss&id=%00",
    "/bulk?verb=replay&matching=1&source=%00",
    "/bulk/%00",
    "/routes/%00",
    "/deliveries/%00",
    "/deliveries/%00/html",
    "/deliveries/%00/source",
    "/deliveries/%00/files/0",
    "/api/v1/deliveries/%00",
    "/api/v1/deliveries/%00/why",
    "/api/v1/deliveries/%00/content",
    "/api/v1/replays/%00",
)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("served")
    if request.param == "sqlite":
        with homing_serve(folder, store=f"sqlite:///{folder}/homing.db") as served:
            yield served
        return
    with servers.postgres() as server, homing_serve(folder, store=server.url) as served:
        yield served


def test_odd_queries_and_paths_are_refused(served: Served) -> None:
    for path in QUERIES:
        answer = served.call("GET", path)
        assert 400 <= answer.status < 500 or path.startswith("/bulk/chosen"), (path, answer.status)
        assert answer.status < 500, (path, answer.status)


@pytest.mark.parametrize("number", ["%C2%B2", "9" * 5000, "-1", "1e3", "0x0", "%00"])
def test_an_attachment_that_cannot_be_is_not_found(served: Served, number: str) -> None:
    accepted = served.post(f"mail-{number[:9]}").json()["delivery_id"]
    assert served.call("GET", f"/deliveries/{accepted}/files/{number}").status == 404


@pytest.mark.parametrize("field", ["source", "recipient", "topic", "error_class", "route"])
def test_a_filter_with_nul_is_refused_by_its_name(served: Served, field: str) -> None:
    body = {"reason": "x", "filter": {field: "a\0b"}, "dry_run": True}
    answer = served.call("POST", "/api/v1/replays", body)
    assert (answer.status, answer.json()["field"]) == (422, f"filter.{field}")


def test_a_form_with_nul_is_refused(served: Served) -> None:
    headers = {**FORM, "Origin": served.url}
    for path, body in (
        ("/bulk", b"verb=dismiss&reason=x&id=%00"),
        ("/bulk", b"verb=replay&reason=x&filter=%00"),
        ("/bulk", b"verb=replay&reason=x&filter=source%3D%2500"),
        ("/routes/mail/pause", b"reason=%00"),
    ):
        assert served.call("POST", path, body, headers).status == 400


def test_the_store_is_not_called_sick_for_it(served: Served) -> None:
    for path in QUERIES:
        served.call("GET", path)
    assert served.call("GET", "/readyz").status == 200
    assert b"The store:" not in served.call("GET", "/").body
