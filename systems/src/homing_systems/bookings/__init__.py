"""Booking mails: sent while the request is handled, kept in `email_outbox` only if that failed."""

from homing_systems.bookings.assembly import ASSEMBLY

__all__ = ["ASSEMBLY"]
