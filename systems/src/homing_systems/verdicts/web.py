"""The web tables: of the mail service, and of the webhook as a program of its own."""

from __future__ import annotations

from homing.plugins import Endpoint, Web
from homing_systems.verdicts.endpoint import PATH, send_verdict_email
from homing_systems.verdicts.webhook import (
    WEBHOOK_PATH,
    deliver_by_service,
    deliver_here,
    webhook,
)

SERVICE = Web(
    access="tokens",
    endpoints=(
        Endpoint(method="POST", path=PATH, handle=send_verdict_email),
        Endpoint(method="POST", path=WEBHOOK_PATH, handle=webhook(deliver_here), right="public"),
    ),
)
# Stripe's signature is the only way in.
WEBHOOK = Web(
    access="trusted",
    standard=False,
    endpoints=(
        Endpoint(
            method="POST", path=WEBHOOK_PATH, handle=webhook(deliver_by_service), right="public"
        ),
    ),
)
