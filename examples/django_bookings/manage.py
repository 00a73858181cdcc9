"""A Django project that confirms bookings by mail. From this folder:

python manage.py migrate --run-syncdb
python manage.py runserver
python manage.py homing_worker
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bookings.settings")
    execute_from_command_line(sys.argv)
