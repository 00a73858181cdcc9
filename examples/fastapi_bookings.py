"""A FastAPI application that confirms bookings by mail: `uvicorn fastapi_bookings:app`."""

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from homing import Email, Homing, InvalidRequest
from homing.contrib.fastapi import lifespan

DATABASE = "bookings.db"
homing = Homing(
    f"sqlite:///{DATABASE}",
    provider=os.environ.get("HOMING_PROVIDER", "stub:"),
    sender="shop@example.org",
)


@asynccontextmanager
async def make_tables(_: FastAPI) -> AsyncIterator[None]:
    with sqlite3.connect(DATABASE) as connection:
        connection.execute("create table if not exists bookings (email text unique)")
    connection.close()
    yield


app = FastAPI(lifespan=lifespan(homing, make_tables))


@app.exception_handler(InvalidRequest)
async def refuse(_: Request, error: InvalidRequest) -> JSONResponse:
    """A wrong address, for example; the transaction is rolled back."""
    return JSONResponse({"detail": str(error)}, 422)


@app.post("/bookings")
async def book(email: str) -> dict[str, str]:
    """The booking and its mail are one transaction: both are stored, or neither is."""
    mail = Email(to=email, subject="Booked", text="See you Monday")
    connection = sqlite3.connect(DATABASE)
    try:
        with connection:
            connection.execute("insert into bookings values (?)", (email,))
            ticket = await homing.submit(mail, key=f"booking-{email}", within=connection)
    finally:
        connection.close()
    return {"delivery_id": ticket.delivery_id}


@app.post("/reminders")
def remind(email: str) -> dict[str, str]:
    """A plain function runs in a thread, and uses `homing.sync` over the same loop."""
    mail = Email(to=email, subject="Tomorrow", text="See you tomorrow")
    return {"status": homing.sync.send(mail).delivery.state}
