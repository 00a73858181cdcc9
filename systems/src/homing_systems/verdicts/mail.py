"""A verdict as a mail: the stored text exactly as it was received."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from homing.content import addresses, mime
from homing.domain import identity
from homing.domain.delivery import Content, Delivery
from homing.domain.message import Email
from homing_systems.verdicts.route import DUPLICATE_NOTICE
from homing_systems.verdicts.verdict import variables_of

HTML = """<!DOCTYPE html>
<html lang="en">
<body>
<p>{query}</p>
<pre style="white-space: pre-wrap">{verdict}</pre>
{footer}</body>
</html>
"""


def composer(sender: str) -> Callable[[Delivery, Content], bytes]:
    """Message-ID and Date are the delivery's own: every attempt sends the same bytes. One that may
    be a duplicate says so below the verdict."""
    address = addresses.parse(sender, "sender")
    domain = address.spec.rpartition("@")[2]

    def compose(delivery: Delivery, content: Content) -> bytes:
        variables = variables_of(content.payload)
        footer = DUPLICATE_NOTICE if delivery.maybe_duplicate else ""
        email = Email(
            to=delivery.open_addresses,
            subject=f"Your {variables['tier']} verdict",
            text=_text(variables["verdict"], footer),
            html=_html(variables["query"], variables["verdict"], footer),
        )
        return mime.build(
            email,
            message_id=identity.message_id(delivery, domain),
            date_ms=delivery.created_at_ms,
            sender=str(address),
        )

    return compose


def _text(verdict: str, footer: str) -> str:
    return f"{verdict}\n\n{footer}\n" if footer else verdict


def _html(query: str, verdict: str, footer: str) -> str:
    """Quotes stay as they are: they mean nothing between tags."""
    return HTML.format(
        query=escape(query, quote=False),
        verdict=escape(verdict, quote=False),
        footer=f"<p><small>{escape(footer, quote=False)}</small></p>\n" if footer else "",
    )
