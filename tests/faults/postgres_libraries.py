"""Transactions of the libraries that programs use for PostgreSQL, each begun in its own way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, TypeAlias

import asyncpg
import django
import psycopg
import sqlalchemy
from django.apps import apps
from django.conf import settings
from django.db import connections, transaction
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

BOOK = "insert into bookings default values"
DJANGO = "homing_postgres"

Library: TypeAlias = Callable[[str], AbstractContextManager[Any]]
AsyncLibrary: TypeAlias = Callable[[str], AbstractAsyncContextManager[Any]]

# Each of these books something in a transaction of its library's own kind, which is committed at
# the end of the block or, after an exception, rolled back.


@contextmanager
def with_psycopg(url: str) -> Iterator[Any]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        connection.execute(BOOK)
        yield connection


@contextmanager
def with_psycopg_transaction(url: str) -> Iterator[Any]:
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        connection.execute(BOOK)
        yield connection


@contextmanager
def with_sqlalchemy_core(url: str) -> Iterator[Any]:
    with sqlalchemy_engine(url) as engine, engine.begin() as connection:
        connection.exec_driver_sql(BOOK)
        yield connection


@contextmanager
def with_sqlalchemy_session(url: str) -> Iterator[Any]:
    with sqlalchemy_engine(url) as engine, Session(engine) as session, session.begin():
        session.execute(sqlalchemy.text(BOOK))
        yield session


@contextmanager
def with_scoped_session(url: str) -> Iterator[Any]:
    with sqlalchemy_engine(url) as engine:
        session = scoped_session(sessionmaker(engine))
        try:
            with session.begin():
                session.execute(sqlalchemy.text(BOOK))
                yield session
        finally:
            session.remove()


@contextmanager
def with_django(url: str) -> Iterator[Any]:
    connection = django_connection(url)
    try:
        with transaction.atomic(DJANGO):
            with connection.cursor() as cursor:
                cursor.execute(BOOK)
            yield connection
    finally:
        connection.close()


@asynccontextmanager
async def with_async_psycopg(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        await connection.execute(BOOK)
        yield connection


@asynccontextmanager
async def with_asyncpg(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute(BOOK)
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def with_asyncpg_pool(url: str) -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        await connection.execute(BOOK)
        yield connection


def with_async_core(driver: str) -> AsyncLibrary:
    @asynccontextmanager
    async def library(url: str) -> AsyncIterator[Any]:
        async with async_engine(url, driver) as engine, engine.begin() as connection:
            await connection.exec_driver_sql(BOOK)
            yield connection

    return library


def with_async_session(driver: str) -> AsyncLibrary:
    @asynccontextmanager
    async def library(url: str) -> AsyncIterator[Any]:
        async with (
            async_engine(url, driver) as engine,
            AsyncSession(engine) as session,
            session.begin(),
        ):
            await session.execute(sqlalchemy.text(BOOK))
            yield session

    return library


SYNC: dict[str, Library] = {
    "psycopg": with_psycopg,
    "psycopg, autocommit with transaction()": with_psycopg_transaction,
    "SQLAlchemy Core": with_sqlalchemy_core,
    "SQLAlchemy session": with_sqlalchemy_session,
    "SQLAlchemy scoped session": with_scoped_session,
    "Django": with_django,
}
ASYNC: dict[str, AsyncLibrary] = {
    "psycopg": with_async_psycopg,
    "asyncpg": with_asyncpg,
    "asyncpg pool": with_asyncpg_pool,
    **{
        f"{title} over {driver}": library(driver)
        for driver in ("psycopg", "asyncpg")
        for title, library in (
            ("SQLAlchemy Core", with_async_core),
            ("SQLAlchemy session", with_async_session),
        )
    },
}


@contextmanager
def sqlalchemy_engine(url: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        yield engine
    finally:
        engine.dispose()


@asynccontextmanager
async def async_engine(url: str, driver: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(url.replace("postgresql:", f"postgresql+{driver}:"))
    try:
        yield engine
    finally:
        await engine.dispose()


def django_connection(url: str) -> Any:
    if not settings.configured:
        settings.configure()
    if not apps.ready:
        django.setup()
    given = psycopg.conninfo.conninfo_to_dict(url)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given["dbname"],
        "USER": given["user"],
        "HOST": given["host"],
        "PORT": given["port"],
    }
    connections.databases[DJANGO] = connections.configure_settings({"default": database})["default"]
    return connections[DJANGO]
