"""Deliveries to look at, made by REST and waited for."""

from __future__ import annotations

import time
from typing import Any

from tests.unit.web.served import Served

WITHIN_S = 60.0


def made(served: Served, key: str, state: str, **fields: object) -> str:
    """The id of a delivery that has come to this state."""
    answer = served.post(key, **fields)
    assert answer.status in (200, 202), answer.body
    delivery_id = str(answer.json()["delivery_id"])
    until(served, delivery_id, state)
    return delivery_id


def until(served: Served, delivery_id: str, state: str) -> dict[str, Any]:
    deadline_s = time.monotonic() + WITHIN_S
    shown: dict[str, Any] = {"state": "unknown"}
    while time.monotonic() < deadline_s:
        shown = served.call("GET", f"/api/v1/deliveries/{delivery_id}").json()
        if shown["state"] == state:
            return shown
        time.sleep(0.05)
    raise AssertionError(f"{delivery_id} is {shown['state']}, not {state}")


def dead(served: Served, key: str, **fields: object) -> str:
    return made(served, key, "failed", to=["bounce@stub.test"], subject=key, **fields)
