"""A booking and its mail are one transaction: both are stored, or neither is."""

from django.core.mail import send_mail
from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from bookings.models import Booking
from homing import Email
from homing.contrib.django import homing


@csrf_exempt
def book(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        booking = Booking.objects.create(email=request.POST["email"])
        email = Email(to=booking.email, subject="Booked", text="See you Monday")
        ticket = homing.sync.submit(email, key=f"booking-{booking.id}", within=connection)
        if request.POST.get("fail"):
            raise RuntimeError("nothing of this is stored")
    return JsonResponse({"delivery_id": ticket.delivery_id})


@csrf_exempt
def remind(request: HttpRequest) -> JsonResponse:
    """The same by Django's own function, through `EMAIL_BACKEND`."""
    sent = send_mail("Tomorrow", "See you tomorrow", None, [request.POST["email"]])
    return JsonResponse({"accepted": sent})
