"""Every page of the console, for tests that look at all of them."""

from __future__ import annotations

from tests.browser.deliveries import dead, made
from tests.unit.web.served import Served


def all_pages(served: Served) -> list[str]:
    """With something to see on each."""
    failed = dead(served, "page-failed", text="See you", html="<p>See you</p>")
    delivered = made(
        served, "page-delivered", "delivered", subject="Booked", text="https://example.org/ hello"
    )
    made(served, "page-late", "pending", subject="Later", not_before_ms=4_000_000_000_000)
    who = {"actor": "ann", "reason": "looked at"}
    served.call("POST", f"/api/v1/deliveries/{failed}/annotate", who)
    return [
        "/",
        "/?span=week",
        "/deliveries",
        "/deliveries?source=nobody",
        f"/deliveries/{failed}",
        f"/deliveries/{delivered}?view=source",
        f"/bulk?verb=replay&id={failed}",
        "/bulk?verb=dismiss&matching=1&state=failed",
        f"/bulk/chosen?verb=dismiss&id={failed}",
        "/failures",
        "/search?q=nothing-like-it",
        "/address?a=bounce%40stub.test",
        "/routes",
        "/routes/mail",
        "/workers",
        "/audit",
        "/access",
        "/settings",
        "/doctor",
        "/outbox",
        "/sign-in",
        "/deliveries/unknown",
    ]
