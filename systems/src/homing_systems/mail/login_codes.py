"""Login codes: mails whose content only the recipient may see."""

from __future__ import annotations

from collections.abc import Mapping

from homing import Request
from homing.domain.message import Email, Json

SOURCE = "authsession"
TEMPLATE = "auth.login_code"
MASK = "[masked]"


def login_code_request(*, email: str, code: str, locale: str, key: str) -> Request:
    message = Email(to=email, template_id=TEMPLATE, locale=locale, variables={"code": code})
    return Request(message=message, key=key, source=SOURCE)


def is_login_code(message: Email) -> bool:
    return message.template_id == TEMPLATE


def masked(message: Email) -> Mapping[str, Json]:
    """The template's variables as operators and logs may see them."""
    if is_login_code(message):
        return dict.fromkeys(message.variables, MASK)
    return message.variables


def suppressed_in_stub_mode(message: Email) -> str | None:
    """With the stub provider, which sends nothing, a login code is suppressed."""
    return "login codes are not sent in stub mode" if is_login_code(message) else None
