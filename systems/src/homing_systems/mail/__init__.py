"""An internal mail service: durable intake, templates, four attempts, resend by clone.

What is accepted is queued first. Whether an event becomes a mail is decided by its callers.
"""

from homing_systems.mail.plugin import PLUGIN

__all__ = ["PLUGIN"]
