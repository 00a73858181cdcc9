"""`homing serve` and `homing worker` as people run them: real processes."""

import signal
from pathlib import Path

import httpx2
import psutil

from tests.unit.cli.programs import free_port, run, serving, started, until


def test_it_listens_where_the_settings_say(tmp_path: Path) -> None:
    port = free_port()
    settings = {"HOMING_SERVER__HOST": "127.0.0.2", "HOMING_SERVER__PORT": str(port)}
    url = f"http://127.0.0.2:{port}"

    def answers() -> bool:
        try:
            return httpx2.get(f"{url}/healthz").status_code == 200
        except httpx2.TransportError:
            return False

    with started(tmp_path, ["-m", "homing", "serve"], **settings) as program:
        until(answers)
        code = program.stop()

    assert code == 0
    assert program.said().startswith(f"Homing on {url} (store sqlite:///homing.db, provider stub:)")


def test_an_hour_of_waiting_passes_in_seconds_when_time_is_scaled(tmp_path: Path) -> None:
    settings = {
        "HOMING_TIME_SCALE": "3600",
        "HOMING_ROUTES__MAIL__RETRY": '{ladder = ["30m", "30m", "1d"]}',
        "HOMING_ROUTES__MAIL__MAX_ATTEMPTS": "4",
        "HOMING_PROVIDER": "stub:?ledger=ledger",
    }
    with serving(tmp_path, **settings) as served:
        late = served.post("late", to=["soft-2@stub.test"])
        found = served.ends_as(late, "delivered", within_s=15.0)
        waits = served.post("waits", to=["down@stub.test"])
        until(lambda: served.delivery(waits)["attempts"] == 3, 15.0)
        # Another process agrees about the time: the last attempt is a day away, not seconds.
        why = run(tmp_path, "why", waits, code=0, **settings).stdout

    assert found["attempts"] == 3
    hour_ms = 3_600_000
    assert hour_ms <= found["ended_at_ms"] - found["created_at_ms"] < 10 * hour_ms
    assert "Attempt 4 of 4 (send) is due at" in why
    assert " h" in why.split("is due at")[1]
    assert "It is the last of its budget" in why


def test_settings_name_the_options_that_they_were_given_by(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/api/v1/settings"
    answers: list[httpx2.Response] = []

    def answered() -> bool:
        try:
            answers.append(httpx2.get(url))
        except httpx2.TransportError:
            return False
        return True

    with started(tmp_path, ["-m", "homing", "serve", "--port", str(port)]) as program:
        until(answered)
        program.stop()

    found = {each["name"]: each for each in answers[0].json()["items"]}
    assert (found["server.port"]["value"], found["server.port"]["origin"]) == (str(port), "--port")
    assert found["server.host"]["origin"] == "default"


def test_metrics_are_served_unless_switched_off(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.ends_as(served.post("k", to=["ok@stub.test"]), "delivered")
        page = served.get("/metrics")
    with serving(tmp_path, HOMING_TELEMETRY__PROMETHEUS="false") as served:
        gone = served.get("/metrics")

    assert 'homing_accepted_total{route="mail"} 1.0' in page.text
    assert 'homing_deliveries{route="mail",state="delivered"} 1.0' in page.text
    assert "homing_workers 1.0" in page.text
    assert gone.status_code == 404


def test_a_taken_port_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        done = run(tmp_path, "serve", "--port", served.url.rpartition(":")[2], code=1)

    assert done.stdout == ""
    assert done.stderr.startswith("homing: server.port: cannot listen on 127.0.0.1:")
    assert done.stderr.count("\n") == 1


def test_workers_are_started_again_and_stop_together(tmp_path: Path) -> None:
    def children() -> list[int]:
        return [child.pid for child in psutil.Process(workers.process.pid).children()]

    with started(tmp_path, ["-m", "homing", "worker", "--processes", "2"]) as workers:
        until(lambda: workers.said().count("Homing worker is running") == 2)
        first, second = sorted(children())
        psutil.Process(first).send_signal(signal.SIGKILL)
        until(lambda: workers.said().count("Homing worker is running") == 3)
        now = children()
        code = workers.stop()

    assert second in now
    assert first not in now
    assert code == 0
    assert f"worker process {first} ended with -9; starting another" in workers.said()
    assert not any(psutil.pid_exists(pid) for pid in now)


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, ["-m", "homing", "worker", "--processes", "2"]) as workers:
        until(lambda: workers.said().count("Homing worker is running") == 2)
        left = psutil.Process(workers.process.pid).children()
        workers.stop(signal.SIGKILL)
        gone, alive = psutil.wait_procs(left, timeout=10)

    assert (len(gone), alive) == (2, [])


def test_a_demo_runs_through_every_behaviour(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/api/v1/deliveries?status="
    command = ["-m", "homing", "demo", "--port", str(port), "--interval", "0.01"]

    def stands(status: str) -> int:
        try:
            return len(httpx2.get(url + status).json()["items"])
        except httpx2.TransportError:
            return 0

    with started(tmp_path, command) as demo:
        until(lambda: all(map(stands, ("delivered", "failed", "suppressed", "pending"))))
        code = demo.stop()

    assert code == 0
