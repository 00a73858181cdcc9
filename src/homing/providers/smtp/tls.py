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
    if settings.client_cert is not None:
        _present(context, settings.client_cert, settings.client_key)
    if not settings.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _present(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    """The certificate by which the server knows us; its key is in a file of its own, or beside."""
    try:
        # With a password given, OpenSSL does not ask a terminal for one.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            "client_cert", f"cannot be read as a PEM certificate with its plain key: {error}"
        ) from error
