"""What a message without a route is told."""

from __future__ import annotations

import pytest

from homing import Email, Homing, Job, NotFound


async def test_mail_without_a_provider_says_what_is_missing() -> None:
    async with Homing("memory:", worker=False) as homing:
        with pytest.raises(NotFound, match=r"no route 'mail'; .*; give Homing a `provider=`"):
            await homing.submit(Email(to="ok@stub.test", subject="S", text="t"))
        with pytest.raises(NotFound, match=r"no route 'report'; there are events$"):
            await homing.submit(Job("report"))
