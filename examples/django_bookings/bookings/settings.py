"""The settings of the example; those of Homing are at the end."""

import os
from pathlib import Path

SECRET_KEY = "only for this example"  # noqa: S105 - there is nothing to protect
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
INSTALLED_APPS = ["homing.contrib.django", "bookings"]
ROOT_URLCONF = "bookings.urls"
WSGI_APPLICATION = "bookings.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(__file__).parents[1] / "bookings.db",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}

DEFAULT_FROM_EMAIL = "shop@example.org"
EMAIL_BACKEND = "homing.contrib.django.mail.EmailBackend"
HOMING = {
    "PROVIDER": os.environ.get("HOMING_PROVIDER", "stub:"),
    "WORKER": os.environ.get("BOOKINGS_WORKER") == "1",
}
