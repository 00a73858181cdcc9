"""An internal mail service: durable intake, templates, four attempts, resend by clone.

What is accepted is queued first; whether an event should become a mail is decided elsewhere.
"""

from homing.assemblies.mail.assembly import ASSEMBLY

__all__ = ["ASSEMBLY"]
