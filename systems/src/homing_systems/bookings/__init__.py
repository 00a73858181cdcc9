"""Booking mails: sent while the request is handled, kept in `email_outbox` only if that failed."""

from homing_systems.bookings.plugin import PLUGIN

__all__ = ["PLUGIN"]
