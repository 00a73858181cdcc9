"""Mail by SMTP: a protocol core without I/O, a bounded pool of connections around it."""

from homing.providers.smtp.provider import SmtpProvider
from homing.providers.smtp.url import SmtpSettings, parse_url

__all__ = ["SmtpProvider", "SmtpSettings", "parse_url"]
