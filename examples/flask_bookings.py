"""A Flask application that confirms bookings by mail: `gunicorn flask_bookings:app`.

Its web processes only accept: run `flask --app flask_bookings homing-worker` beside them.
"""

import os
import sqlite3
from contextlib import closing

from flask import Flask, request

from homing import Email, Homing, InvalidRequest
from homing.contrib.flask import init_app

DATABASE = "bookings.db"
homing = Homing(
    f"sqlite:///{DATABASE}",
    provider=os.environ.get("HOMING_PROVIDER", "stub:"),
    sender="shop@example.org",
    worker=os.environ.get("BOOKINGS_WORKER") == "1",
)
app = Flask(__name__)
init_app(app, homing)

with closing(sqlite3.connect(DATABASE)) as database:
    database.execute("pragma journal_mode = wal")
    database.execute("create table if not exists bookings (email text unique)")


@app.errorhandler(InvalidRequest)
def refuse(error: InvalidRequest) -> tuple[dict[str, str], int]:
    """A wrong address, for example; the transaction is rolled back."""
    return {"error": str(error)}, 422


@app.post("/bookings")
def book() -> dict[str, str]:
    """The booking and its mail are one transaction: both are stored, or neither is."""
    email = request.form["email"]
    mail = Email(to=email, subject="Booked", text="See you Monday")
    with closing(sqlite3.connect(DATABASE)) as connection, connection:
        connection.execute("insert into bookings values (?)", (email,))
        ticket = homing.sync.submit(mail, key=f"booking-{email}", within=connection)
    return {"delivery_id": ticket.delivery_id}


@app.post("/reminders")
def remind() -> dict[str, str]:
    mail = Email(to=request.form["email"], subject="Tomorrow", text="See you tomorrow")
    return {"delivery_id": homing.sync.submit(mail).delivery_id}
