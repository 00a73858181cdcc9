"""T14: what a real process holds in memory is bounded, whatever it is sent."""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.security.test_web_limits import POST
from tests.unit.web.served import Served, homing_serve


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with homing_serve(tmp_path_factory.mktemp("memory"), store="memory:") as served:
        served.post("warm")
        yield served


def peak(served: Served, act: Callable[[], object]) -> int:
    """By how much its memory had grown at the worst moment."""
    before, worst, done = served.rss_bytes(), 0, threading.Event()

    def watch() -> None:
        nonlocal worst
        while not done.wait(0.01):
            worst = max(worst, served.rss_bytes() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        act()
    finally:
        done.set()
        watcher.join()
    return worst


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 2_000_000,
        b'{"a":' * 400_000,
        b'{"to":["a"],"variables":{"a":[' + b"{}," * 600_000 + b"{}]}}",
        b'{"to":[' + b'"a",' * 490_000 + b'"a"]}',
        b'{"to":["a@b.org"],"text":"x","headers":{'
        + b",".join(b'"%d":""' % number for number in range(180_000))
        + b"}}",
        b'{"to":["a@b.org"],"text":"' + b"\\u0000" * 330_000 + b'"}',
    ],
    ids=["deep", "deep-objects", "many-objects", "many-people", "many-headers", "escapes"],
)
def test_a_bomb_of_json_stays_small(process: Served, body: bytes) -> None:
    assert len(body) <= 2_200_000
    headers = {"Idempotency-Key": "bomb"}
    post = functools.partial(process.call, "POST", "/api/v1/deliveries", body, headers)
    assert peak(process, post) < 120_000_000
    # The last is no bomb but a long mail.
    assert post().status in (400, 413, 422, 200)


def test_large_bodies_that_never_end_are_bounded_together(process: Served) -> None:
    lines: list[socket.socket] = []

    def flood() -> None:
        head = POST + b"Content-Length: 30000000\r\n\r\n"
        for _ in range(20):
            line = process.connect(timeout_s=10)
            lines.append(line)
            try:
                line.sendall(head + b" " * 15_000_000)
            except OSError:
                continue  # refused: there was no room left

    try:
        assert peak(process, flood) < 250_000_000
    finally:
        for line in lines:
            line.close()
    assert process.post("after").status == 202
