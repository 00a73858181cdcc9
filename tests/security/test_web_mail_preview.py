"""The mail of a stranger on our pages: it costs little time, and connects to no one."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser.chromium import chromium
from tests.unit.web.served import homing_serve

# Far more than a linear pattern needs, far less than a quadratic one.
LIMIT_CPU_S = 10
TAGS = (
    '<link rel="preconnect" href="{}">',
    '<link rel="dns-prefetch" href="{}">',
    '<link rel="prefetch" href="{}">',
    '<link rel="stylesheet" href="{}">',
    '<meta http-equiv="refresh" content="0;url={}">',
    "<style>@import url({});</style>",
    '<img src="{}"><img srcset="{} 1x">',
    '<video src="{}" poster="{}" autoplay></video>',
    '<iframe src="{}"></iframe><IFRAME/src="{}"></IFRAME>',
    '<object data="{}"></object><embed src="{}">',
    '<svg><image href="{}"/><foreignObject><iframe src="{}"></iframe></foreignObject></svg>',
    '<div style="background:url({})">x</div>',
    '<script>fetch("{}")</script>',
)


@pytest.mark.parametrize("piece", ["<a ", "<img ", "<a href", "<a href   ", "<img src =", "<a <"])
def test_links_are_listed_in_linear_time(piece: str) -> None:
    """Of a mail as large as is accepted, in a process that may use this much of a processor."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_CPU_S, LIMIT_CPU_S))

    code = (
        "from homing.web.console.payloads import _IMAGE, _LINK\n"
        f"[each.findall({piece!r} * (2_000_000 // {len(piece)})) for each in (_IMAGE, _LINK)]"
    )
    subprocess.run([sys.executable, "-c", code], preexec_fn=limit, check=True)


@contextmanager
def listener() -> Iterator[tuple[str, list[object]]]:
    """An address, and who has connected to it."""
    found: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, peer = server.accept()
                except OSError:
                    return
                found.append(peer)
                connection.close()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/seen", found
        server.shutdown(socket.SHUT_RDWR)


def test_a_preview_connects_to_no_one(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/homing.db"
    with listener() as (url, found), homing_serve(tmp_path, store=store) as served:
        html = "".join(tag.replace("{}", url) for tag in TAGS) + '<p id="end">end</p>'
        accepted = served.post("k", subject="x", html=html).json()["delivery_id"]
        with chromium() as browser:
            page = browser.new_page()
            page.goto(f"{served.url}/deliveries/{accepted}?view=html")
            page.frame_locator("iframe").locator("#end").wait_for()
            page.wait_for_load_state("networkidle")
            page.goto(f"{served.url}/deliveries/{accepted}/html")
            page.wait_for_load_state("networkidle")
        assert found == []
