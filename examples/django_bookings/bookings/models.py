"""What is booked."""

from django.db import models


class Booking(models.Model):
    email = models.EmailField(unique=True)
