"""The addresses of the example."""

from django.urls import path

from bookings.views import book, remind

urlpatterns = [path("bookings", book), path("reminders", remind)]
