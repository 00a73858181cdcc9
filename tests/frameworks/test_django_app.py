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
INLINE = """
import json
from email.mime.image import MIMEImage
from django.core.mail import EmailMultiAlternatives
from homing.contrib.django.mail import email_of

image = MIMEImage(b"\\x89PNG\\r\\n\\x1a\\n", "png")
image.add_header("Content-ID", "<logo>")
image.add_header("Content-Disposition", "inline", filename="logo.png")
message = EmailMultiAlternatives("Booked", "See you", to=["ann@example.org"])
message.attach(image)
told = [email_of(message)[0].attachments[0].content_id]
message.attach_alternative('<img src="cid:logo">', "text/html")
told += [email_of(message)[0].attachments[0].content_id, message.send()]
print(json.dumps(told))
"""
SILENT = """
from django.core.mail import EmailMessage

def send(text, to="ann@example.org"):
    headers = {"Idempotency-Key": "one"}
    return EmailMessage("Booked", text, to=[to], headers=headers).send(fail_silently=True)

print([send("first"), send("second"), send("third", to="nobody")])
"""
ASYNC = """
import asyncio
from homing import Email
from homing.contrib.django import homing

async def main():
    async with homing as started:
        mail = Email(to="ann@example.org", subject="Booked", text="See you")
        print((await started.send(mail)).delivery.state)

asyncio.run(main())
"""
PLAN = """
from homing.contrib.django import homing

async def look():
    return homing.engine.routes["mail"].plan

with homing.sync as sync:
    plan = sync.run(look())
print(plan.stages[0].retry.schedule.steps_s, plan.stages[0].retry.max_attempts, plan.on_unknown)
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
    {"PROVIDER": "stub:", "ALLOWED_SENDERS": "desk@example.org"},
    {"PROVIDER": "stub:", "RETRY": 5},
    {"PROVIDER": "stub:", "TIMEOUT_S": "1m"},
    {"PROVIDER": "stub:", "ON_UNKNOWN": "held"},
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
    configure(site, "HOMING['ALLOWED_SENDERS'] = ['desk@example.org']")
    told = json.loads(shell(site, SENDING).splitlines()[0])
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
        "HOMING['ALLOWED_SENDERS']",
        "retry",
        "timeout_s",
        "on_unknown",
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


def test_a_sender_that_django_uses_and_homing_refuses_is_warned_of(site: Site) -> None:
    configure(site, "ADMINS = [('Ann', 'ann@example.org')]\n")
    said = site.run("manage.py", "check")
    assert "homing.W002" in said
    assert "SERVER_EMAIL (root@localhost)" in said
    assert "HOMING['ALLOWED_SENDERS']" in said
    assert "DEFAULT_FROM_EMAIL" not in said

    configure(site, "HOMING['SENDER'] = 'desk@example.org'\nSERVER_EMAIL = 'desk@example.org'\n")
    said = site.run("manage.py", "check")
    assert "DEFAULT_FROM_EMAIL (shop@example.org)" in said
    assert "SERVER_EMAIL" not in said

    configure(site, "HOMING['ALLOWED_SENDERS'] = ['@example.org']\n")
    assert "no issues" in site.run("manage.py", "check")


def test_a_refused_sender_names_the_setting(site: Site) -> None:
    sending = (
        "from django.core.mail import send_mail; send_mail('a', 'b', 'x@y.example', ['a@b.c'])"
    )
    assert "the setting `allowed_senders`" in site.run("manage.py", "shell", "-c", sending, code=1)


def test_an_inline_image_is_shown_by_the_html(site: Site) -> None:
    assert json.loads(shell(site, INLINE)) == [None, "logo", 1]


def test_silent_failures_are_logged(site: Site) -> None:
    said = shell(site, SILENT)
    assert "[1, 0, 0]" in said
    assert "mail_refused detail=key 'one'" in said
    assert "mail_refused detail=to[0]" in said


def test_retries_and_the_way_out_of_doubt_can_be_set(site: Site) -> None:
    configure(
        site,
        "from homing import Ladder, Retry\n"
        "HOMING |= {'RETRY': Retry(Ladder((9.0,)), max_attempts=2), 'ON_UNKNOWN': 'hold'}\n",
    )
    assert shell(site, PLAN).split() == ["(9.0,)", "2", "hold"]


def test_homing_of_the_project_starts_in_an_event_loop(site: Site) -> None:
    assert shell(site, ASYNC).strip() == "delivered"


def test_an_application_that_is_not_installed_is_named(site: Site) -> None:
    configure(site, "INSTALLED_APPS = ['bookings']\n")
    sending = "from django.core.mail import send_mail; send_mail('a', 'b', None, ['a@b.example'])"
    said = site.run("manage.py", "shell", "-c", sending, code=1)
    assert "INSTALLED_APPS: must contain 'homing.contrib.django'" in said


def test_the_command_line_reads_the_store_of_the_project(site: Site) -> None:
    bounced = (
        "from django.core.mail import send_mail; send_mail('a', 'b', None, ['bounce@stub.test'])"
    )
    shell(site, bounced)
    listing = ("-m", "homing", "list", "--app", "homing.contrib.django:homing")
    said = site.run(*listing, code=1)
    assert "DJANGO_SETTINGS_MODULE: is not set" in said
    site.environment["DJANGO_SETTINGS_MODULE"] = "bookings.settings"
    assert "bounce@stub.test" in site.run(*listing)
