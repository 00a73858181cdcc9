"""A value of the wrong type is refused by name, before anything is stored."""

from __future__ import annotations

from collections import UserString
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from homing import Attachment, Email, Event, Homing, InvalidRequest, Job, Retention, SettingsError
from homing.domain.delivery import Fact
from homing.testing.clocks import ManualClock

MAIL = Email(to="ann@example.org", subject="Booked", text="See you Monday")
PAID = Event("invoice.paid", {"number": 7})


def app() -> Homing:
    homing = Homing("memory:", provider="stub:", clock=ManualClock(), worker=False)

    @homing.on("invoice.paid")
    async def book_revenue(event: object) -> None: ...

    return homing


# Callers without a type checker pass anything.
OPTIONS: list[tuple[str, Any]] = [
    ("key", 5),
    ("key", b"booking-42"),
    ("key", "\ud800"),
    ("key", "a\0b"),
    ("source", None),
    ("source", 5),
    ("source", "\ud800"),
    ("priority", "2"),
    ("priority", None),
    ("priority", True),
    ("priority", 2.0),
    ("send_at", "tomorrow"),
    ("send_at", 1_900_000_000_000),
    ("send_at", datetime(2030, 1, 1)),  # noqa: DTZ001 - without a time zone on purpose
    ("send_at", datetime(1969, 1, 1, tzinfo=UTC)),
    ("expires_at", timedelta(days=1)),
    ("expires_at", datetime(2030, 1, 1)),  # noqa: DTZ001 - without a time zone on purpose
    ("metadata", {"a": 1}),
    ("metadata", {1: "a"}),
    ("metadata", [("a", "b")]),
    ("metadata", {"a": "\ud800"}),
    ("generation", "1"),
    ("generation", -1),
    ("delivery_id", 5),
    ("delivery_id", ""),
    ("facts", [5]),
    ("facts", Fact("note", "1", 0)),
    ("route", 5),
]


@pytest.mark.parametrize(("field", "value"), OPTIONS)
async def test_an_option_of_the_wrong_type_is_refused_by_name(field: str, value: object) -> None:
    wrong: dict[str, Any] = {field: value}
    async with app() as homing:
        for call in ("submit", "send", "submit_many"):
            given: Any = MAIL
            options = wrong
            if call == "submit_many":
                given = [(value, MAIL) if field == "key" else MAIL]
                options = {} if field == "key" else wrong
            with pytest.raises(InvalidRequest) as refusal:
                await getattr(homing, call)(given, **options)
            assert refusal.value.field.partition(".")[0] == field
        assert not (await homing.ops.list()).items


LOOP: dict[str, Any] = {}
LOOP["again"] = LOOP
DEEP: list[Any] = []
for _ in range(10_000):
    DEEP = [DEEP]

MESSAGES: list[tuple[str, Any]] = [
    ("message", "hello"),
    ("message", None),
    ("message", {"to": "ann@example.org"}),
    ("type", Event(5)),  # type: ignore[arg-type] # what is tested
    ("type", Event("")),
    ("name", Job(5)),  # type: ignore[arg-type] # what is tested
    ("metadata", Event("invoice.paid", metadata={"a": 1})),  # type: ignore[dict-item] # the same
    ("metadata", Event("invoice.paid", metadata=5)),  # type: ignore[arg-type] # the same
    ("data", Event("invoice.paid", object())),
    ("data", Event("invoice.paid", {(1, 2): 3})),
    ("data", Event("invoice.paid", float("nan"))),
    ("data", Event("invoice.paid", LOOP)),
    ("data", Event("invoice.paid", DEEP)),
    ("to", Email(to=[5], text="x")),  # type: ignore[list-item] # the same
    ("subject", Email(to="ann@example.org", subject=5, text="x")),  # type: ignore[arg-type] # the same
    ("text", Email(to="ann@example.org", text=UserString("x"))),  # type: ignore[arg-type] # the same
    ("from", Email(to="ann@example.org", text="x", sender=5)),  # type: ignore[arg-type] # the same
    ("headers", Email(to="ann@example.org", text="x", headers=5)),  # type: ignore[arg-type] # the same
    ("metadata", Email(to="ann@example.org", text="x", metadata={"a": 1})),  # type: ignore[dict-item] # the same
    ("variables", Email(to="ann@example.org", template_id="x", variables=5)),  # type: ignore[arg-type] # the same
    ("template_id", Email(to="ann@example.org", template_id=5)),  # type: ignore[arg-type] # the same
    ("locale", Email(to="ann@example.org", template_id="x", locale=5)),  # type: ignore[arg-type] # the same
    ("invitation", Email(to="ann@example.org", text="x", invitation="x")),  # type: ignore[arg-type] # the same
    ("attachments", Email(to="ann@example.org", text="x", attachments=["a.txt"])),  # type: ignore[list-item] # the same
    ("attachments", Email(to="a@b.org", text="x", attachments=[Attachment("a", "b")])),  # type: ignore[arg-type] # the same
]


@pytest.mark.parametrize(("field", "message"), MESSAGES)
async def test_a_wrong_message_is_refused_by_name(field: str, message: Any) -> None:
    async with app() as homing:
        for call in (homing.submit, homing.send):
            with pytest.raises(InvalidRequest) as refusal:
                await call(message, key="k")
            assert refusal.value.field.partition("[")[0].partition(".")[0] == field
        for many in ([message], [("k", message)]):
            with pytest.raises(InvalidRequest):
                await homing.submit_many(many)


@pytest.mark.parametrize("field", ["to", "cc", "attachments"])
def test_an_email_that_cannot_be_made_names_the_field(field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        Email(**({"to": "ann@example.org"} | {field: 5}))  # type: ignore[arg-type] # what is tested
    assert refusal.value.field == field


async def test_many_messages_are_a_list() -> None:
    async with app() as homing:
        for wrong in (MAIL, 5, "hello", [("k", MAIL, 1)]):
            with pytest.raises(InvalidRequest) as refusal:
                await homing.submit_many(wrong)  # type: ignore[arg-type] # what is tested
            assert refusal.value.field in ("messages", "message")


async def test_times_are_datetimes_with_a_zone() -> None:
    async with app() as homing:
        berlin = timezone(timedelta(hours=1))
        start, end = datetime(2030, 1, 1, 12, tzinfo=berlin), datetime(2030, 1, 2, tzinfo=UTC)
        ticket = await homing.submit(MAIL, send_at=start, expires_at=end)
        delivery = await homing.ops.show(ticket.delivery_id)
        assert delivery.due_at_ms == 1_893_495_600_000
        assert delivery.expires_at_ms == 1_893_542_400_000


class SafeString(str):
    """As Django's templates make them."""

    __slots__ = ()

    def __str__(self) -> str:
        return self


async def test_subclasses_of_text_are_text() -> None:
    """What a template engine returns is mostly no plain `str`."""
    email = Email(to=SafeString("ann@example.org"), subject=SafeString("Hi"), text=SafeString("x"))
    async with app() as homing:
        ticket = await homing.submit(
            email, key=SafeString("k"), source=SafeString("shop"), metadata={"a": SafeString("b")}
        )
        delivery = await homing.ops.show(ticket.delivery_id)
        assert (type(delivery.key), type(delivery.metadata["a"])) == (str, str)
        event = Event("invoice.paid", {SafeString("a"): SafeString("b")})
        assert (await homing.submit(event, key=SafeString("e"))).created
        named = (await homing.submit(Event(SafeString("invoice.paid")), key="plain")).delivery
        assert [type(text) for text in (named.topic, named.queue)] == [str, str]


@pytest.mark.parametrize("wrong", [5, None, b"sqlite:///x.db", "outbox.db", ""])
def test_a_store_that_is_none_is_refused_in_words(wrong: Any) -> None:
    with pytest.raises(SettingsError, match=r"^store: .*sqlite:///"):
        Homing(wrong)


@pytest.mark.parametrize("wrong", [5, b"stub:", "mail.example.org"])
def test_a_provider_that_is_none_is_refused_in_words(wrong: Any) -> None:
    with pytest.raises(SettingsError, match=r"^provider: .*smtp:"):
        Homing("memory:", provider=wrong)


@pytest.mark.parametrize("host", ["[::1", "[none]", "h\u2100", "[::1]]", "[::1]x:25", "x[::1]"])
@pytest.mark.parametrize("scheme", ["smtp", "smtps", "postgresql", "Http"])
def test_a_url_whose_host_cannot_be_read_is_refused_by_name(scheme: str, host: str) -> None:
    url = f"{scheme}://shop:hush@{host}"
    with pytest.raises(SettingsError, match=r"^provider: ") as provider:
        Homing("memory:", provider=url, sender="shop@example.org")
    with pytest.raises(SettingsError, match=r"^store: ") as store:
        Homing(url)
    assert "hush" not in f"{provider.value} {store.value}"


def test_a_misspelt_way_out_of_doubt_is_refused() -> None:
    """It would mean `retry`, where the caller wanted to hold."""
    for wrong in ("held", None, True):
        with pytest.raises(SettingsError, match="on_unknown: must be one of retry, hold"):
            Homing("memory:", provider="stub:", on_unknown=wrong)  # type: ignore[arg-type] # tested


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [(30.0, "retention: must be a Retention"), (Retention(key_s=-1.0), r"retention\.key_s: ")],
)
def test_a_wrong_retention_is_refused(wrong: Any, setting: str) -> None:
    """It would be noticed when records are removed, or are not."""
    with pytest.raises(SettingsError, match=setting):
        Homing("memory:", provider="stub:", retention=wrong)


async def test_a_path_is_a_sqlite_file(tmp_path: Path) -> None:
    async with Homing(tmp_path / "outbox.db", provider="stub:", worker=False) as homing:
        await homing.submit(MAIL)
    assert (tmp_path / "outbox.db").exists()


def test_a_decorator_without_its_brackets_is_refused() -> None:
    homing = app()
    with pytest.raises(InvalidRequest, match="event_type: must be text"):

        @homing.on  # type: ignore[arg-type] # what is tested
        async def handle(event: object) -> None: ...

    with pytest.raises(InvalidRequest, match="name: must be text"):

        @homing.job  # type: ignore[arg-type] # what is tested
        async def work(job: object) -> None: ...


async def test_the_desk_names_what_is_wrong() -> None:
    async with app() as homing:
        ticket = await homing.submit(MAIL)
        ops: Any = homing.ops
        with pytest.raises(InvalidRequest, match="actor: must be text"):
            await ops.cancel(ticket.delivery_id, actor=5, reason="x")
        with pytest.raises(InvalidRequest, match="filter: must be a DeliveryFilter, not str"):
            await ops.list("failed")
        with pytest.raises(InvalidRequest, match="message: must be an Email"):
            await ops.amend(ticket.delivery_id, "text", actor="ann", reason="x")
        with pytest.raises(InvalidRequest, match="message: must be an Email"):
            await ops.use("amend", ticket.delivery_id, actor="ann", reason="x")
        with pytest.raises(InvalidRequest, match="verb: must be one of replay, "):
            await ops.use("explode", ticket.delivery_id, actor="ann", reason="x")
        with pytest.raises(InvalidRequest, match="reason: must be text"):
            await ops.cancel(ticket.delivery_id, actor="ann", reason=None)


REGISTRATIONS: list[tuple[str, Any]] = [
    ("retry", 5),
    ("timeout_s", "10"),
    ("timeout_s", 0),
    ("timeout_s", float("nan")),
    ("terminal_errors", "ValueError"),
    ("terminal_errors", (ValueError, "x")),
    ("terminal_errors", (ValueError("x"),)),
    ("stages", "run"),
    ("stages", ()),
    ("stages", ("run", 5)),
    ("stages", ("run", "run")),
]


@pytest.mark.parametrize(("field", "value"), REGISTRATIONS)
def test_a_handler_or_job_with_wrong_options_is_refused_by_name(field: str, value: Any) -> None:
    def work(call: object) -> None: ...

    homing = app()
    wrong: dict[str, Any] = {field: value}
    with pytest.raises(InvalidRequest) as refusal:
        homing.job("review", **wrong)(work)
    assert refusal.value.field == field
    if field != "stages":
        with pytest.raises(InvalidRequest) as refusal:
            homing.on("paid", **wrong)(work)
        assert refusal.value.field == field


def test_one_terminal_error_needs_no_tuple() -> None:
    homing = app()
    homing.on("paid", terminal_errors=ValueError)(print)
