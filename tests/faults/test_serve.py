"""`homing serve` is killed, filled up, locked out and stopped: what it acknowledged stays true."""

from __future__ import annotations

import http.client
import random
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.faults.disks import SmallDisk, SmallMount, small_disk
from tests.faults.processes import BOUND_S, until
from tests.faults.reckoning import Books, contradictions, lost, read_books
from tests.servers import free_port, smtp_sink
from tests.unit.web.served import HOST, Served, homing_serve, launch, start_serve, stop

CALLERS = 12
KILLS = 3
# So many calls of a life are answered before it is killed.
FEWEST_ANSWERS, MOST_ANSWERS = 20, 300
SHOWN = 40
SHUTDOWN_GRACE_S = 60.0
LEASE_S = "3.0"
QUICK = {
    "lease": LEASE_S,
    "log__level": "error",
    "routes__mail__timeout": "1s",
    "routes__mail__retry": '{ladder = ["0.05s"]}',
    "routes__mail__max_attempts": "7",
}
ADDRESSES = (*["ok@stub.test"] * 8, "bounce@stub.test", "soft-1@stub.test")


class Callers:
    """Clients that hand in mail over keep-alive connections and write down what they were told."""

    def __init__(self, port: int, addresses: tuple[str, ...]) -> None:
        self._port = port
        self._addresses = addresses
        self._lock = threading.Lock()
        self._asked = 0
        self._unanswered: list[int] = []
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self.promised: dict[str, str] = {}
        self.surprises: list[str] = []

    def start(self) -> None:
        self._stopping.clear()
        self._threads = [threading.Thread(target=self._call) for _ in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def ask_again(self) -> None:
        """Every request that was never answered, under its own key, as a careful caller does."""
        left, self._unanswered = self._unanswered, []
        connection = http.client.HTTPConnection(HOST, self._port, timeout=30)
        for number in left:
            self._post(connection, number)
        connection.close()

    def _call(self) -> None:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=30)
        while not self._stopping.is_set():
            with self._lock:
                number, self._asked = self._asked, self._asked + 1
            try:
                self._post(connection, number)
            except (OSError, http.client.HTTPException):
                self._unanswered.append(number)
                break  # it was killed: the rest is for the next life
        connection.close()

    def _post(self, connection: http.client.HTTPConnection, number: int) -> None:
        key = f"k-{number}"
        address = self._addresses[number % len(self._addresses)]
        body = msgspec.json.encode({"to": [address], "subject": key, "text": "See you"})
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        connection.request("POST", "/api/v1/deliveries", body, headers)
        answer = connection.getresponse()
        said = msgspec.json.decode(answer.read())
        if answer.status not in (200, 202):
            self.surprises.append(f"{key}: {answer.status} {said}")
        elif self.promised.setdefault(key, said["delivery_id"]) != said["delivery_id"]:
            self.surprises.append(f"{key} is {said['delivery_id']} and {self.promised[key]} (I3)")


def live_and_die(
    folder: Path, callers: Callers, port: int, rng: random.Random, **more: str
) -> None:
    """One life under load, ended by SIGKILL at no particular moment."""
    process = start_serve(folder, port, **more)
    wanted = len(callers.promised) + rng.randint(FEWEST_ANSWERS, MOST_ANSWERS)
    try:
        callers.start()
        until(lambda: len(callers.promised) >= wanted, lambda: f"{wanted} are not answered")
        process.kill()
        process.wait()
        callers.stop()
    finally:
        stop(process)


def until_settled(served: Served) -> None:
    """Every delivery has ended, one way or the other."""

    def states() -> dict[str, int]:
        stats = served.call("GET", "/api/v1/stats").json()
        found: dict[str, int] = next(
            one["states"] for one in stats["routes"] if one["route"] == "mail"
        )
        return found

    until(
        lambda: not states().keys() & {"pending", "in_flight", "waiting"},
        lambda: f"not settled: {states()}",
    )


def found_by_rest(served: Served, promised: dict[str, str]) -> None:
    """By id and by key, each ended and, if it failed, with its reason."""
    for key, delivery_id in random.Random(1).sample(sorted(promised.items()), SHOWN):
        shown = served.call("GET", f"/api/v1/deliveries/{delivery_id}").json()
        listed = served.call("GET", f"/api/v1/deliveries?key={key}").json()["items"]
        assert listed == [shown]
        assert shown["status"] in ("delivered", "failed")
        assert (shown["failed_because"] is not None) == (shown["status"] == "failed")


def test_sigkill_under_load_loses_nothing_and_sends_nothing_twice_unflagged(
    tmp_path: Path,
) -> None:
    """I1, I3, I9: what was acknowledged is found and ends; the provider's ledger agrees."""
    store, ledger, port = tmp_path / "homing.db", tmp_path / "ledger", free_port()
    settings = QUICK | {"store": f"sqlite:///{store}", "provider": f"stub:?ledger={ledger}"}
    seed = random.randrange(2**32)
    callers, rng = Callers(port, ADDRESSES), random.Random(seed)
    for _ in range(KILLS):
        live_and_die(tmp_path, callers, port, rng, **settings)
    process = start_serve(tmp_path, port, **settings)
    try:
        callers.ask_again()
        served = Served(port, process.pid)
        until_settled(served)
        found_by_rest(served, callers.promised)
    finally:
        assert stop(process) == 0
    books = read_books(store, ledger)
    told = f"seed {seed}, {len(callers.promised)} acknowledged, {books.duplicates} duplicates"
    assert callers.surprises == []
    assert lost(books, callers.promised) == [], told
    assert contradictions(books) == [], told


def test_sigkill_with_real_smtp_behind_it(tmp_path: Path) -> None:
    """The sink counts what it took: all that was delivered, and no more than doubts explain."""
    store, port = tmp_path / "homing.db", free_port()
    callers, rng = Callers(port, ("ann@example.org", "bob@example.org")), random.Random()
    with smtp_sink() as sink:
        settings = QUICK | {
            "store": f"sqlite:///{store}",
            "provider": f"{sink.url}?tls=none",
            "sender": "homing@example.org",
        }
        live_and_die(tmp_path, callers, port, rng, **settings)
        process = start_serve(tmp_path, port, **settings)
        try:
            callers.ask_again()
            until_settled(Served(port, process.pid))
        finally:
            assert stop(process) == 0
        taken = sink.messages()
    books = read_books(store, tmp_path / "none")
    assert callers.surprises == []
    assert lost(books, callers.promised) == []
    assert books.states.keys() == {"delivered"}
    flagged = [one for one in books.records.values() if one.delivery.maybe_duplicate]
    doubts = sum(len(record.in_doubt) for record in flagged)
    delivered = books.states["delivered"]
    assert delivered <= taken <= delivered + doubts, (delivered, taken, doubts)


class TestFullDisk:
    @pytest.fixture
    def disk(self, tmp_path: Path) -> Iterator[SmallDisk]:
        with small_disk(tmp_path / "disk", 6 * 1024 * 1024) as disk:
            yield disk

    def test_intake_says_507_and_recovers_when_there_is_room(
        self, disk: SmallDisk, tmp_path: Path
    ) -> None:
        # A limit on files reads as an I/O error.
        wanted = 507 if isinstance(disk, SmallMount) else 503
        settings = QUICK | {"store": f"sqlite:///{disk.folder / 'homing.db'}"}
        with homing_serve(tmp_path, "--no-worker", **settings) as served:
            kept = {f"k-{n}": served.post(f"k-{n}", text="x" * 20_000) for n in range(20)}
            assert {answer.status for answer in kept.values()} == {202}
            disk.pid = served.pid
            disk.fill()

            refused = [served.post(f"full-{n}", text="x" * 20_000) for n in range(5)]

            assert {answer.status for answer in refused} == {wanted}
            for answer in refused:
                assert answer.headers["retry-after"] == "5"
                assert wanted == 503 or "nothing was stored" in answer.json()["detail"]
            assert served.call("GET", "/readyz").status == 503
            assert len(_keys(served)) == 20
            disk.free()
            again = [served.post(f"full-{n}", text="x" * 20_000) for n in range(5)]
            assert {answer.status for answer in again} == {202}
            assert served.call("GET", "/readyz").status == 200
            assert _keys(served) == {*kept, *(f"full-{n}" for n in range(5))}


def _keys(served: Served) -> set[str]:
    items = served.call("GET", "/api/v1/deliveries?limit=200").json()["items"]
    return {item["idempotency_key"] for item in items}


def test_a_store_that_others_hold_is_503_until_they_let_go(tmp_path: Path) -> None:
    store = tmp_path / "homing.db"
    settings = QUICK | {"store": f"sqlite:///{store}"}
    with homing_serve(tmp_path, "--no-worker", **settings) as served:
        assert served.post("before").status == 202
        other = sqlite3.connect(store, isolation_level=None)
        other.execute("begin immediate")
        refused = served.post("during")
        other.execute("rollback")
        other.close()
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert _keys(served) == {"before"}
        assert served.post("during").status == 202


class TestStartAndStop:
    def test_sigterm_ends_in_order_although_somebody_listens(self, tmp_path: Path) -> None:
        port = free_port()
        process = start_serve(
            tmp_path,
            port,
            store=f"sqlite:///{tmp_path / 'homing.db'}",
            shutdown_grace=f"{SHUTDOWN_GRACE_S}s",
        )
        served = Served(port, process.pid)
        idle, listener = served.connect(), served.connect()
        listener.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b": homing" in _heard(listener.recv, b": homing")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SHUTDOWN_GRACE_S / 2) == 0
        idle.close()
        listener.close()

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["--host", "0.0.0.0"], "server.host: 0.0.0.0 is not loopback and there are no API"),
            (["--host", "no.such.host.invalid"], "server.host: cannot listen on no.such.host"),
        ],
    )
    def test_a_start_that_must_not_be_is_refused(
        self, tmp_path: Path, arguments: list[str], says: str
    ) -> None:
        process = launch(tmp_path, "serve", *arguments, "--port", str(free_port()))
        assert _ended(process) == 1
        log = (tmp_path / "serve.log").read_text()
        assert says in log
        assert "Traceback" not in log

    def test_a_port_that_is_taken_is_named(self, tmp_path: Path) -> None:
        port = free_port()
        first, second = tmp_path / "first", tmp_path / "second"
        first.mkdir()
        second.mkdir()
        process = start_serve(first, port)
        try:
            assert _ended(launch(second, "serve", "--port", str(port))) == 1
            log = (second / "serve.log").read_text()
            assert f"server.port: cannot listen on 127.0.0.1:{port}" in log
            assert not (second / "homing.db").exists()
        finally:
            stop(process)


def _ended(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(BOUND_S)
    finally:
        stop(process)


def _heard(receive: Callable[[int], bytes], words: bytes) -> bytes:
    heard = b""
    while words not in heard and (piece := receive(65536)):
        heard += piece
    return heard


def test_the_books_can_be_wrong(tmp_path: Path) -> None:
    """The oracle itself: a ledger with a line too many is a contradiction."""
    store, ledger = tmp_path / "homing.db", tmp_path / "ledger"
    settings = {"store": f"sqlite:///{store}", "provider": f"stub:?ledger={ledger}"}
    with homing_serve(tmp_path, **settings) as served:
        assert served.post("k").status == 202
        until_settled(served)
    books: Books = read_books(store, ledger)
    assert contradictions(books) == []
    ledger.write_bytes(ledger.read_bytes() * 2)
    assert any("(I9)" in word for word in contradictions(read_books(store, ledger)))
