"""The answers of Graph, over HTTP: the real provider, the fake of the product, a clock by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from homing.testing.clocks import ManualClock
from homing_systems.mock_graph import Behaviour
from homing_systems.verdicts.route import DUPLICATE_NOTICE
from tests.conformance.verdicts.office import DAY_S, ODD_JSON, Office
from tests.unit.graph.fakes import FIRST_TOKEN, fake_graph


async def test_only_202_is_success(tmp_path: Path, clock: ManualClock) -> None:
    """O-021, O-023, O-024"""
    with fake_graph(tmp_path, Behaviour(script="202,400,200")) as fake:
        async with Office(tmp_path, clock, provider=fake.provider()).open() as office:
            sent = await office.post()
            dead = await office.post(session_id="cs_2")
            strange = await office.post(session_id="cs_3")
        mails = fake.state.ledger()

    assert [answer.json()["outcome"] for answer in (sent, dead, strange)] == [
        "sent",
        "dead",
        "sent",
    ]
    assert mails[0]["body"].strip() == ODD_JSON
    assert DUPLICATE_NOTICE in mails[-1]["body"]


@pytest.mark.parametrize("code", ["500", "502", "503", "504"])
async def test_these_answers_are_tried_again(tmp_path: Path, clock: ManualClock, code: str) -> None:
    """O-031, O-032, O-034: what may have been sent says so the next time."""
    with fake_graph(tmp_path, Behaviour(script=f"{code},{code},202")) as fake:
        async with Office(tmp_path, clock, provider=fake.provider()).open() as office:
            queued = await office.post()
            await office.work_for(DAY_S)
        sends, mails = fake.sends(), fake.state.ledger()

    assert queued.json()["outcome"] == "queued"
    assert sends == [int(code), int(code), 202]
    assert (DUPLICATE_NOTICE in mails[-1]["body"]) is (code != "503")
    assert office.deliveries()[0].endswith("attempt=2")
    codes = {line["last_error_code"] for line in office.lines()} - {None}
    assert codes == {int(code)}


@pytest.mark.parametrize(
    ("answer", "at_least_s"), [("429", 60), ("429:10", 60), ("429:120", 120), ("429@120", 60)]
)
async def test_a_rate_limit_is_obeyed_in_both_forms(
    tmp_path: Path, clock: ManualClock, answer: str, at_least_s: float
) -> None:
    """O-028, O-029, O-030"""
    with fake_graph(tmp_path, Behaviour(script=f"{answer},202")) as fake:
        async with Office(tmp_path, clock, provider=fake.provider()).open() as office:
            await office.post()
            await office.work_after(at_least_s - 1)
            early = fake.sends()
            await office.work_for(DAY_S)
        sends = fake.sends()

    assert early == [429]
    assert sends == [429, 202]


async def test_a_token_is_renewed_and_stored(tmp_path: Path, clock: ManualClock) -> None:
    """O-025, O-069, O-071: the other lines of the file stay."""
    with fake_graph(tmp_path, Behaviour(script="401,202")) as fake:
        async with Office(tmp_path, clock, provider=fake.provider()).open() as office:
            answer = await office.post()
        text = fake.env_file.read_text()

    assert answer.json() == {"outcome": "sent"}
    assert FIRST_TOKEN not in text
    assert 'OTHER = "kept as it is"\n' in text


async def test_a_second_401_is_an_abort(tmp_path: Path, clock: ManualClock) -> None:
    """O-025, O-064, O-026"""
    with fake_graph(tmp_path, Behaviour(script="401,401")) as fake:
        async with Office(tmp_path, clock, provider=fake.provider()).open() as office:
            answer = await office.post()
        sends = fake.sends()

    assert answer.json()["outcome"] == "dead"
    assert sends == [401, 401]
    assert office.dead_letters()[0]["error_codes"] == [401]


async def test_two_processes_that_renew_at_once_leave_a_good_token(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-072: a used token works only once."""
    behaviour = Behaviour(script="401,202,401,202,202", revoke_used=True)
    with fake_graph(tmp_path, behaviour) as fake:
        one = Office(tmp_path, clock, provider=fake.provider())
        two = Office(tmp_path, clock, provider=fake.provider())
        async with one.open(), two.open():
            answers = [await one.post(), await two.post(session_id="cs_2")]
            again = await one.post(session_id="cs_3")

    assert {answer.json()["outcome"] for answer in [*answers, again]} == {"sent"}


async def test_a_closed_port_is_minus_one(tmp_path: Path, clock: ManualClock) -> None:
    """O-035, O-005"""
    with fake_graph(tmp_path) as fake:
        provider = fake.provider(GRAPH_API_URL="http://127.0.0.1:9/v1.0")
        async with Office(tmp_path, clock, provider=provider).open() as office:
            answer = await office.post()

    assert answer.json()["outcome"] == "queued"
    assert office.lines()[-1]["last_error_code"] == -1
    assert isinstance(office.lines()[-1]["last_error_detail"], str)


async def test_the_fake_answers_by_its_script_and_lists_the_calls(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-125"""
    with fake_graph(tmp_path, Behaviour(script="503,202")) as fake:
        async with Office(tmp_path, clock, provider=fake.provider()).open() as office:
            await office.post()
        calls: list[Any] = fake.state.calls()

    assert [call["status"] for call in calls if call["path"].endswith("/sendMail")] == [503, 202]
