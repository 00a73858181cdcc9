"""The stub keeps what it was asked to send, for tests to look at, within bounds."""

from __future__ import annotations

from homing.ports import Envelope
from homing.providers.stub import REMEMBERED, REMEMBERED_BYTES, StubProvider, stub_from_url


def envelope(number: int, size: int) -> Envelope:
    return Envelope(
        delivery_id=str(number), token="", recipients=("ann@example.org",), data=b"x" * size
    )


def kept(provider: StubProvider) -> list[str]:
    return [each.delivery_id for each in provider.calls]


def test_it_remembers_the_last_ones() -> None:
    provider = StubProvider()
    for number in range(REMEMBERED + 2):
        provider.leave(envelope(number, 1))
    assert kept(provider) == [str(number) for number in range(2, REMEMBERED + 2)]


def test_that_of_a_service_remembers_few_large_ones_and_always_the_last() -> None:
    provider = stub_from_url("stub:")
    for number in range(5):
        provider.leave(envelope(number, REMEMBERED_BYTES // 2))
    assert kept(provider) == ["3", "4"]
    provider.leave(envelope(5, REMEMBERED_BYTES + 1))
    assert kept(provider) == ["5"]
