"""RSA keys for signatures, and the DNS that has their public halves."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa


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


def other_key(kind: str) -> str:
    """What people take for such a key."""
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    plain = serialization.NoEncryption()
    if kind == "public":
        public = _key(0, 2048).public_key()
        form_of_public = serialization.PublicFormat.SubjectPublicKeyInfo
        return public.public_bytes(encoding, form_of_public).decode()
    if kind == "encrypted":
        locked = serialization.BestAvailableEncryption(b"secret")
        return _key(0, 2048).private_bytes(encoding, form, locked).decode()
    if kind == "ec":
        return ec.generate_private_key(ec.SECP256R1()).private_bytes(encoding, form, plain).decode()
    return ed25519.Ed25519PrivateKey.generate().private_bytes(encoding, form, plain).decode()


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
