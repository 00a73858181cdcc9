"""What can be set for bookings alone."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from homing.plugins import Seconds, env


class BookingsSettings(Struct, frozen=True, kw_only=True):
    admin_password: Annotated[
        str | None,
        env(
            "BOOKINGS_ADMIN_PASSWORD",
            "Opens the admin pages; without it they are off.",
            secret=True,
        ),
    ] = None
    slot: Annotated[Seconds, env("BOOKINGS_SLOT", "How long a booking lasts.")] = Seconds(1800.0)
    bcc: Annotated[str | None, env("BOOKINGS_BCC", "Gets a hidden copy of every mail.")] = None
    video_link: Annotated[
        str | None, env("BOOKINGS_VIDEO_LINK", "The video call, named in every confirmation.")
    ] = None
