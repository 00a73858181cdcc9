"""Tests of the example: `manage.py test` reaches neither the store nor the mail server."""

from django.test import TestCase

from homing.contrib.django import homing
from homing.testing.outbox import SyncOutbox


class BookingTest(TestCase):
    def setUp(self) -> None:
        self.outbox = self.enterContext(SyncOutbox(homing))

    def test_a_booking_is_confirmed(self) -> None:
        self.client.post("/bookings", {"email": "ann@example.org"})
        self.outbox.run()
        [mail] = self.outbox.delivered_to("ann@example.org")
        assert mail["Subject"] == "Booked"
