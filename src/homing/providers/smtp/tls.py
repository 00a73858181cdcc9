"""The one place where TLS is set up."""

from __future__ import annotations

import ssl

from homing.domain.errors import SettingsError
from homing.providers.smtp.url import SmtpSettings


def tls_context(settings: SmtpSettings) -> ssl.SSLContext | None:
    """TLS 1.2 or newer, the chain and the host name verified; None where TLS is not used."""
    if settings.tls == "none":
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError("ca_file", f"cannot be read as PEM certificates: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not settings.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
