"""A Django project whose database is PostgreSQL: the store lies in it."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from homing.contrib.django import configured
from tests import servers
from tests.frameworks.serving import Site

SETTINGS = """
DATABASES["default"] = {{
    "ENGINE": "django.db.backends.postgresql",
    "NAME": "postgres",
    "USER": "postgres",
    "HOST": "127.0.0.1",
    "PORT": {port},
}}
"""
SENDING = """
import json
from django.core.mail import send_mail
from django.db import transaction
from homing.ports import Query
from homing.contrib.django import homing

homing.sync.start()  # makes the tables
with transaction.atomic():
    send_mail("Lost", "with its transaction", None, ["lost@example.org"])
    transaction.set_rollback(True)
with transaction.atomic():
    send_mail("Kept", "with its transaction", None, ["eve@example.org"])
send_mail("At once", "without one", None, ["ann@example.org"])
page = homing.sync.run(homing.ops.list())
print(json.dumps([item.recipients[0].address for item in page.items]))
"""


def test_mail_is_part_of_the_open_transaction(tmp_path: Path) -> None:
    site = Site(tmp_path, "django_bookings")
    with servers.postgres() as server:
        with (site.folder / "bookings/settings.py").open("a") as settings:
            settings.write(SETTINGS.format(port=server.port))
        assert "no issues" in site.run("manage.py", "check")
        said = site.run("manage.py", "shell", "-c", SENDING)
        with psycopg.connect(server.url) as database:
            [(stored,)] = database.execute("select count(*) from homing_open").fetchall()
    assert json.loads(said.splitlines()[-1]) == ["ann@example.org", "eve@example.org"]
    assert stored == 2


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"HOST": "db", "PORT": "5433"}, "postgresql://shop:p%40ss@db:5433/shop"),
        ({"HOST": "db", "PORT": ""}, "postgresql://shop:p%40ss@db/shop"),
        (
            {"HOST": "/run/postgresql", "PORT": ""},
            "postgresql://shop:p%40ss@/shop?host=%2Frun%2Fpostgresql",
        ),
        (
            {"HOST": "db", "PORT": "", "OPTIONS": {"sslmode": "require", "pool": True}},
            "postgresql://shop:p%40ss@db/shop?sslmode=require",
        ),
    ],
)
def test_the_store_is_found_where_django_connects(given: dict[str, object], url: str) -> None:
    database = {"NAME": "shop", "USER": "shop", "PASSWORD": "p@ss"} | given
    assert configured._server_url(database) == url


@pytest.mark.parametrize(
    ("store", "is_same"),
    [
        ("postgresql://other:secret@db/shop?durability=weak", True),
        ("postgresql:///shop?host=db", True),
        ("postgresql://db:5433/shop", False),
        ("postgresql://db/elsewhere", False),
        ("sqlite:///shop", False),
    ],
)
def test_the_own_database_is_recognised_by_its_place(store: str, *, is_same: bool) -> None:
    assert (configured._place(store) == configured._place("postgresql://shop@db/shop")) is is_same
