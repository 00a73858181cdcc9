"""Every page of the console, for tests that look at all of them."""

from __future__ import annotations

from tests.browser.deliveries import dead, made
from tests.browser.kinds import filled
from tests.unit.web.served import Served

ICS = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//EN\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\n"
    "UID:7\r\nDTSTAMP:20261117T000000Z\r\nDTSTART:20261124T100000Z\r\nSUMMARY:{text}\r\n"
    "LOCATION:{text}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)


def all_pages(served: Served, store: str, text: str = "Ann") -> list[str]:
    """With something to see on each; `text` is in all that comes from outside."""
    short = text[:100]  # where the length is bounded
    failed = dead(served, f"page-failed {short}", text=text, html=f"<p>{text}</p>", source=short)
    delivered = made(
        served,
        "page-delivered",
        "delivered",
        subject=short,
        text=f"https://example.org/ {text}",
        html=f"<a href='https://example.org/'>{text}</a><img src='https://example.org/x.png'>",
        headers={"X-Odd": short},
        metadata={"note": short},
        attachments=[{"filename": "a.html", "content_base64": "PGI+", "content_type": "text/html"}],
        invitation={"ics": ICS.format(text=text), "method": "REQUEST"},
    )
    made(served, "page-late", "pending", subject=short, send_at="2096-10-02T07:06:40Z")
    event, job = filled(store, text)
    who = {"actor": short, "reason": text[:1900]}
    served.call("POST", f"/api/v1/deliveries/{failed}/annotate", who)
    dismissed = dead(served, "page-dismissed")
    served.call("POST", f"/api/v1/deliveries/{dismissed}/dismiss", who)
    started = served.call(
        "POST", "/api/v1/restorations", {**who, "filter": {"state": "dismissed"}}
    ).json()
    served.call("POST", "/api/v1/routes/mail/pause", who)
    return [
        "/",
        "/?span=day",
        "/?span=week",
        "/deliveries",
        "/deliveries?source=nobody",
        f"/deliveries/{failed}",
        *(f"/deliveries/{delivered}?view={view}" for view in ("text", "html", "headers", "source")),
        f"/deliveries/{event}",
        f"/deliveries/{job}",
        f"/bulk?verb=replay&id={failed}",
        "/bulk?verb=dismiss&matching=1&state=failed",
        f"/bulk/chosen?verb=dismiss&id={failed}",
        f"/bulk/{started['bulk_id']}",
        "/failures",
        "/search",
        "/search?q=nothing-like-it",
        "/search?q=mailbox",
        "/address?a=bounce%40stub.test",
        "/address?a=nobody%40example.org",
        "/routes",
        "/routes/mail",
        "/routes/review",
        "/workers",
        "/audit",
        "/access",
        "/settings",
        "/doctor",
        "/outbox",
        "/deliveries/unknown",
    ]
