"""Booking mails: sent while the request is handled, kept in `email_outbox` only if that failed.

The row is removed once the mail is sent; a host may retry or dismiss a dead letter.
"""

from homing.assemblies.bookings.assembly import ASSEMBLY

__all__ = ["ASSEMBLY"]
