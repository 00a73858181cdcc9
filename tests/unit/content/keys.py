"""RSA keys for signatures, and the DNS that has their public halves."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


@cache
def _key(number: int, bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def private_key(number: int = 0, *, bits: int = 2048, old_format: bool = False) -> str:
    """As `openssl genrsa` writes it: today, or before version 3."""
    form = serialization.PrivateFormat
    pem = _key(number, bits).private_bytes(
        serialization.Encoding.PEM,
        form.TraditionalOpenSSL if old_format else form.PKCS8,
        serialization.NoEncryption(),
    )
    return pem.decode()


def dns(**numbers: int) -> Callable[..., bytes]:
    """`dns(mail=0)` has the key 0 for the selector `mail` of any domain."""

    def txt(name: bytes, timeout: int = 5) -> bytes:
        selector = name.decode().partition(".")[0]
        public = _key(numbers[selector], 2048).public_key()
        der = public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return b"v=DKIM1; k=rsa; p=" + base64.b64encode(der)

    return txt
