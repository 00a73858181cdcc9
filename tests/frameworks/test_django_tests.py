"""Tests of a Django project: they run, and they never reach the project's own store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.serving import Site
from tests.frameworks.test_django_app import configure

TESTS = '''
from django.db import transaction
from django.core.mail import send_mail
from django.test import SimpleTestCase, TestCase, TransactionTestCase, override_settings

from bookings.models import Booking
from homing import Email
from homing.contrib.django import homing
from homing.testing.outbox import SyncOutbox

MAIL = Email(to="leak@example.org", subject="From a test", text="x")
BACKEND = override_settings(EMAIL_BACKEND="homing.contrib.django.mail.EmailBackend")


class Views(TestCase):
    def test_one_booking(self):
        self.assertEqual(self.client.post("/bookings", {"email": "a@example.org"}).status_code, 200)

    def test_another_under_the_same_number(self):
        """The rollback of the other test gives the number, and so the key, again."""
        self.assertEqual(self.client.post("/bookings", {"email": "b@example.org"}).status_code, 200)

    def test_on_an_outbox(self):
        homing.sync.submit(MAIL, key="before")
        with SyncOutbox(homing) as outbox:
            self.client.post("/bookings", {"email": "a@example.org"})
            with BACKEND, transaction.atomic():
                send_mail("Tomorrow", "See you", None, ["a@example.org"])
            outbox.run()
            got = [mail["Subject"] for mail in outbox.delivered_to("a@example.org")]
        self.assertEqual(got, ["Booked", "Tomorrow"])
        self.assertFalse(homing.sync.submit(MAIL, key="before").created)


class Submitting(TransactionTestCase):
    def test_after_a_write(self):
        with transaction.atomic():
            Booking.objects.create(email="a@example.org")
            self.assertTrue(homing.sync.submit(MAIL, key="leak-1").created)
            with BACKEND:
                self.assertEqual(send_mail("a", "b", None, ["c@example.org"]), 1)

    def test_again(self):
        self.assertTrue(homing.sync.submit(MAIL, key="leak-1").created)


class WithoutDatabase(SimpleTestCase):
    def test_submit(self):
        self.assertEqual(homing.sync.send(MAIL, key="leak-2").delivery.state, "delivered")
'''
ALONE = """
from homing import Email
from homing.contrib.django import homing

def test_submitting():
    assert homing.sync.submit(Email(to="leak@example.org", text="x"), key="leak").created
"""
DATABASES = {
    "memory": "",
    "file": "DATABASES['default']['TEST'] = {'NAME': 'test.db'}\n",
    "store": "HOMING['STORE'] = 'sqlite:///bookings.db'\n",
}
READY = """
from django.apps import AppConfig

class BookingsConfig(AppConfig):
    name = "bookings"

    def ready(self):
        from homing.contrib.django import homing
        homing.on("paid")(print)
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, "django_bookings")


@pytest.mark.parametrize("database", DATABASES.values(), ids=DATABASES.keys())
def test_a_test_run_leaves_the_projects_store_alone(site: Site, database: str) -> None:
    """Also where a handler was registered, and Homing made, before the test run began."""
    configure(site, database)
    (site.folder / "bookings" / "apps.py").write_text(READY)
    (site.folder / "bookings" / "tests.py").write_text(TESTS)
    assert "OK" in site.run("manage.py", "test")
    assert not list(site.folder.glob("bookings.db*"))
    assert not site.sent()


def test_a_run_of_pytest_alone_leaves_the_projects_store_alone(site: Site) -> None:
    (site.folder / "conftest.py").write_text("import django\n\ndjango.setup()\n")
    (site.folder / "test_mail.py").write_text(ALONE)
    site.environment["DJANGO_SETTINGS_MODULE"] = "bookings.settings"

    assert "1 passed" in site.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mail.py")
    assert not list(site.folder.glob("bookings.db*"))


def test_a_test_run_without_databases(site: Site) -> None:
    (site.folder / "bookings" / "tests.py").write_text(TESTS)
    assert "OK" in site.run("manage.py", "test", "bookings.tests.WithoutDatabase")
    assert not list(site.folder.glob("bookings.db*"))
