"""docs/guides/writing-a-provider.md: its provider, as shown, over a real HTTP gateway."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from homing import Failure
from homing.ports import Accepted, Checked, Envelope, StaysLocal
from tests.docs.blocks import files_in, write_files
from tests.docs.gateway import Gateway, gateway


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    write_files(tmp_path, files_in("writing-a-provider.md"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "src")
    yield tmp_path
    for name in ("homing_sms.provider", "homing_sms", "try_it"):
        sys.modules.pop(name, None)


@pytest.fixture
def texts() -> Iterator[Gateway]:
    with gateway() as server:
        yield server


def provider_of(url: str) -> Any:
    return importlib.import_module("homing_sms.provider").SmsProvider(url, "key")


async def sent(provider: Any, to: str = "+4930123456") -> Accepted | Failure:
    envelope = Envelope(
        delivery_id="d",
        token="t-1",
        recipients=(to,),
        data=f'{{"to": "{to}", "text": "x"}}'.encode(),
    )
    ready = await provider.prepare(envelope)
    answer: Accepted | Failure = await ready.commit()
    return answer


async def test_answers_are_values(shown: Path, texts: Gateway) -> None:
    provider = provider_of(texts.url)
    texts.script = [400, 401, 429, 503]

    failures = [await sent(provider) for _ in range(4)]
    accepted = await sent(provider)
    await provider.close()

    assert [(f.error_class, f.disposition) for f in failures if isinstance(f, Failure)] == [
        ("number_refused", "reject"),
        ("auth_failed", "route_fault"),
        ("rate_limited", "retry"),
        ("gateway_error", "retry"),
    ]
    assert isinstance(accepted, Accepted)
    assert accepted.receipt.notification_id == "text-1"
    assert set(texts.tokens) == {"t-1"}


async def test_no_connection_is_not_sent_and_no_answer_is_maybe_sent(shown: Path) -> None:
    with gateway() as server:
        gone = server.url
    provider = provider_of(gone)
    failure = await sent(provider)
    await provider.close()
    assert isinstance(failure, Failure)
    assert (failure.error_class, failure.maybe_sent) == ("unreachable", False)

    with gateway() as server:
        server.script = [0]  # no status at all: the line is cut after the request
        server.answer = cut  # type: ignore[method-assign]
        provider = provider_of(server.url)
        failure = await sent(provider)
        await provider.close()
    assert isinstance(failure, Failure)
    assert (failure.error_class, failure.maybe_sent) == ("answer_lost", True)


def cut(body: dict[str, Any], token: str) -> int:
    raise ConnectionAbortedError


async def test_its_capabilities(shown: Path, texts: Gateway) -> None:
    provider = provider_of(texts.url)
    assert [isinstance(provider, kind) for kind in (StaysLocal, Checked)] == [True, True]
    assert provider.stays_local
    assert not provider_of("https://sms.example.org/texts").stays_local
    assert [finding.detail for finding in await provider.findings()] == ["it answers 200"]
    await provider.close()


async def test_trying_it_out(shown: Path, texts: Gateway) -> None:
    assert await importlib.import_module("try_it").main(texts.url) == "delivered"
    assert texts.accepted == [{"to": "+4930123456", "text": "Your taxi is here."}]
