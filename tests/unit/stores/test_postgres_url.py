"""What the URL of a PostgreSQL store says, and what is refused."""

import pytest
from psycopg import conninfo

from homing.domain.errors import SettingsError
from homing.stores.sql.postgres.url import parse_url


def test_the_database_is_shown_without_user_and_password() -> None:
    parsed = parse_url("postgresql://shop:hush@db.example.org/orders")
    assert parsed.shown == "postgresql://db.example.org:5432/orders"


def test_several_servers_are_kept() -> None:
    parsed = parse_url("postgresql://shop@one:5433,two:5434/orders")
    given = conninfo.conninfo_to_dict(parsed.url)
    assert (given["host"], given["port"]) == ("one,two", "5433,5434")


def test_options_reach_the_server_as_they_were_written() -> None:
    parsed = parse_url(
        "postgresql://shop@/orders?host=/run/pg&options=-c%20search_path%3Da%2Cb"
        "&application_name=a+b&durability=weak"
    )
    given = conninfo.conninfo_to_dict(parsed.url)
    assert parsed.allows_weak_durability
    assert given["host"] == "/run/pg"
    assert given["options"] == "-c search_path=a,b"
    assert given["application_name"] == "a+b"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://shop:hush@db:none/orders", "port 'none'"),
        ("postgresql://shop:hush@db:70000/orders", "port '70000'"),
        ("postgresql://shop:hush@db/orders?durability=weka", "durability"),
        ("postgresql://shop:hush@db/orders?no_such_option=1", "cannot be read"),
        ("postgresql://shop:hu%zzsh@db/orders", "cannot be read"),
    ],
)
def test_what_is_wrong_is_named_without_the_password(url: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=r"^store: ") as refused:
        parse_url(url)
    assert problem in str(refused.value)
    assert "hush" not in str(refused.value)
