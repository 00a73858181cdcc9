"""The Django application itself: settings, checks, the e-mail backend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.frameworks.serving import Site

SENDING = """
import json
from django.core.mail import EmailMessage, EmailMultiAlternatives, send_mail
from django.db import transaction
from homing import InvalidRequest
from homing.contrib.django import homing

told = []
def note(value):
    told.append(value)

full = EmailMultiAlternatives(
    "Booked", "See you", to=["ann@example.org"], cc=["bob@example.org"], bcc=["cy@example.org"],
    reply_to=["desk@example.org"], headers={"X-Shop": "7", "idempotency-key": "booking-1"},
)
full.attach_alternative("<p>See you</p>", "text/html")
full.attach("plan.txt", "Monday", "text/plain")
full.attach("plan.bin", b"\\x00\\x01", "application/octet-stream")
note(full.send())
note(full.send())  # the same key: one delivery

html = EmailMessage("Only HTML", "<p>Hi</p>", to=["dan@example.org"])
html.content_subtype = "html"
note(html.send())
note(EmailMessage("To nobody", "Hi").send())

with transaction.atomic():
    note(send_mail("Lost", "with its transaction", None, ["lost@example.org"]))
    transaction.set_rollback(True)
with transaction.atomic():
    note(send_mail("Kept", "with its transaction", None, ["eve@example.org"]))

bad = EmailMultiAlternatives("Bad", "text", to=["fay@example.org"])
bad.attach_alternative("BEGIN:VCALENDAR", "text/calendar")
try:
    bad.send()
except InvalidRequest as refused:
    note(str(refused))
note(send_mail("Other", "sender", "other@example.org", ["gil@example.org"], fail_silently=True))
try:
    send_mail("Other", "sender", "other@example.org", ["gil@example.org"])
except InvalidRequest as refused:
    note(refused.field)
note(send_mail("Desk", "sender", "desk@example.org", ["hal@example.org"]))
print(json.dumps(told))
"""
READING = """
import json
from homing.contrib.django import homing
from homing.ports import Query

async def all_of_them():
    page = await homing.store.page(Query(), limit=100)
    return {one.key or one.recipients[0].address: await homing.store.content(one.id)
            for one in page.items}

found = homing.sync.run(all_of_them())
print(json.dumps({name: json.loads(content.payload) for name, content in found.items()}))
"""
CHECKING = """
import json
from django.test import override_settings
from homing.contrib.django.checks import check_homing

told = []
for wrong in (
    None,
    {"PROVIDER": "stub:", "PROVIDRE": "stub:"},
    {"PROVIDER": "pigeon:"},
    {"PROVIDER": "stub:", "STORE": 5},
    {"PROVIDER": "stub:", "WORKER": "yes"},
    {"PROVIDER": "stub:", "SENDERS": "desk@example.org"},
):
    with override_settings(HOMING=wrong):
        told += [found.msg for found in check_homing()]
print(json.dumps(told))
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, "django_bookings")


def shell(site: Site, script: str) -> str:
    return site.run("manage.py", "shell", "--verbosity=0", "-c", script)


def configure(site: Site, settings: str) -> None:
    with (site.folder / "bookings" / "settings.py").open("a") as file:
        file.write(settings)


def test_djangos_own_functions_submit_to_homing(site: Site) -> None:
    configure(site, "HOMING['SENDERS'] = ['desk@example.org']")
    told = json.loads(shell(site, SENDING))
    assert told[:6] == [1, 1, 1, 0, 1, 1]
    assert "text/calendar is not supported" in told[6]
    assert told[7:] == [0, "from", 1]

    found = json.loads(shell(site, READING))
    assert found.keys() == {
        "booking-1",
        "dan@example.org",
        "eve@example.org",
        "hal@example.org",
    }
    full = found["booking-1"]
    assert (full["to"], full["cc"], full["bcc"]) == (
        ["ann@example.org"],
        ["bob@example.org"],
        ["cy@example.org"],
    )
    assert full["reply_to"] == ["desk@example.org"]
    assert full["headers"] == {"X-Shop": "7"}
    assert (full["subject"], full["text"], full["html"]) == ("Booked", "See you", "<p>See you</p>")
    assert [item["filename"] for item in full["attachments"]] == ["plan.txt", "plan.bin"]
    html = found["dan@example.org"]
    assert (html["html"], html.get("text", "")) == ("<p>Hi</p>", "")


def test_wrong_settings_are_named_by_the_checks(site: Site) -> None:
    """The views import `homing`: that raises nothing, so that the checks can speak."""
    configure(site, "HOMING = {}")
    said = site.run("manage.py", "check", code=1)
    assert "(homing.E001) HOMING['PROVIDER']: is missing" in said

    told = json.loads(shell(site, CHECKING))
    assert [problem.partition(":")[0] for problem in told] == [
        "HOMING",
        "HOMING['PROVIDRE']",
        "provider",
        "HOMING['STORE']",
        "HOMING['WORKER']",
        "HOMING['SENDERS']",
    ]
    assert "known are STORE, PROVIDER" in told[1]


def test_a_late_write_lock_is_warned_of(site: Site) -> None:
    configure(site, "del DATABASES['default']['OPTIONS']")
    assert "homing.W001" in site.run("manage.py", "check")


def test_a_store_of_its_own_needs_no_database_of_the_project(site: Site) -> None:
    configure(site, "HOMING['STORE'] = 'sqlite:///outbox.db'\n")
    configure(site, "DATABASES['default']['NAME'] = ':memory:'")
    assert "no issues" in site.run("manage.py", "check")
    shell(
        site, "from django.core.mail import send_mail; send_mail('a', 'b', None, ['a@b.example'])"
    )
    assert (site.folder / "outbox.db").exists()
