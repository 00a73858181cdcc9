"""The stub provider: answers by a script and by test addresses, and keeps a ledger.

`stub:?script=503,timeout,202&ledger=FILE` answers each send in turn and accepts once the
script is at its end. Addresses at `@stub.test` have a behaviour of their own (see BEHAVIOURS).
The ledger of what was really accepted is a file, written before the answer is given: tests
compare it with the engine's records.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct, field

from homing.domain.delivery import Receipt
from homing.domain.errors import SettingsError
from homing.domain.failure import RATE_LIMITED, TIMED_OUT, Failure, Refusal
from homing.ports import Accepted, Envelope, Finding

DOMAIN = "@stub.test"
# In memory for tests to look at; the file keeps all.
REMEMBERED = 1000
# Of the stub of a service, where nobody looks.
REMEMBERED_BYTES = 1024 * 1024

# What each test address does; `soft-N` is read separately.
BEHAVIOURS: dict[str, str] = {
    "ok": "is accepted",
    "bounce": "is refused permanently (550)",
    "soft-N": "is deferred N times (451), then accepted",
    "down": "is always deferred (451)",
    "maybe": "is accepted, but the answer is lost",
    "suppressed": "is on the suppression list",
    "auth": "fails with bad credentials: a fault of the route",
}


class Accept(Struct, frozen=True):
    """The script accepts the send. With `answer_lost` the caller is left in doubt."""

    answer_lost: bool = False


_LOST = Failure("answer_lost", detail="the connection was cut after the message", maybe_sent=True)

# A script's words, as data. Other numbers: 2xx is accepted, 4xx refused, 5xx tried again.
ANSWERS: dict[str, Accept | Failure] = {
    "ok": Accept(),
    "maybe": Accept(answer_lost=True),
    "timeout": Failure(TIMED_OUT, detail="no answer", maybe_sent=True),
    "cut": Failure("connection_lost", code="-1", detail="the connection was cut early"),
    "400": Failure("bad_request", "reject", code="400"),
    "401": Failure("auth_failed", "route_fault", code="401"),
    "403": Failure("forbidden", "route_fault", code="403"),
    "408": Failure(TIMED_OUT, code="408"),
    "421": Failure("deferred", code="421"),
    "429": Failure(RATE_LIMITED, code="429"),
    "450": Failure("deferred", code="450"),
    "451": Failure("deferred", code="451"),
    "452": Failure("deferred", code="452"),
    "535": Failure("auth_failed", "route_fault", code="535"),
    "550": Failure("recipient_refused", "reject", code="550"),
    "552": Failure("content_refused", "reject", code="552"),
    "553": Failure("recipient_refused", "reject", code="553"),
    "554": Failure("content_refused", "reject", code="554"),
    "suppress": Failure("suppressed", "suppress", code="suppressed"),
}


class Entry(Struct, frozen=True):
    """One line of the ledger: really accepted, whatever the engine has recorded."""

    delivery_id: str
    token: str
    recipients: tuple[str, ...]
    sha256: str
    notification_id: str


class Ledger:
    """What was accepted, in memory and, if a file is named, on disk before the answer."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._file: int | None = None
        self.entries: deque[Entry] = deque(maxlen=REMEMBERED)
        self.total = 0

    def write(self, entry: Entry) -> None:
        self.total += 1
        self.entries.append(entry)
        if self._path is None:
            return
        if self._file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
        # One write call: whole lines even when several processes share the file.
        os.write(self._file, msgspec.json.encode(entry) + b"\n")

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def read_ledger(path: Path) -> list[Entry]:
    """Every acceptance in the file, by any process."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Entry) for line in lines if line]


class StubProvider:
    """Sends nothing. Each send takes the next word of the script, if there is one."""

    token_window_s = 0.0
    stays_local = True
    description = "the stub, which sends nothing"
    test_addresses: ClassVar = {f"{name}{DOMAIN}": meaning for name, meaning in BEHAVIOURS.items()}

    def __init__(
        self,
        script: tuple[str, ...] = (),
        ledger: Path | None = None,
        latency_s: float = 0.0,
        *,
        remembered_bytes: float = math.inf,
    ) -> None:
        self._script = [answer_for(word) for word in script]
        self.latency_s = latency_s
        self._put_off: Counter[tuple[str, str]] = Counter()
        self.ledger = Ledger(ledger)
        self.calls: deque[Envelope] = deque()
        self._most_bytes = remembered_bytes
        self._bytes = 0

    async def findings(self) -> list[Finding]:
        detail = "the stub sends nothing: HOMING_PROVIDER names the server that does"
        return [Finding("provider", "warning", detail)]

    def answer(self, *words: str) -> None:
        """Add to the script: the next sends are answered so, in turn."""
        self._script.extend(answer_for(word) for word in words)

    async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[StubSend | Failure]:
        return [await self.prepare(envelope) for envelope in envelopes]

    async def prepare(self, envelope: Envelope) -> StubSend | Failure:
        if any(_behaviour(address) == "auth" for address in envelope.recipients):
            return Failure("auth_failed", "route_fault", code="535", detail="bad credentials")
        return StubSend(self, envelope)

    def leave(self, envelope: Envelope) -> None:
        """It is on its way."""
        calls = self.calls
        calls.append(envelope)
        self._bytes += len(envelope.data)
        while len(calls) > 1 and (len(calls) > REMEMBERED or self._bytes > self._most_bytes):
            self._bytes -= len(calls.popleft().data)

    def arrive(self, envelope: Envelope) -> Accepted | Failure:
        """It is there, and answered."""
        answer = self._script.pop(0) if self._script else Accept()
        if isinstance(answer, Failure):
            return answer
        return self._by_address(envelope, answer_lost=answer.answer_lost)

    def _by_address(self, envelope: Envelope, *, answer_lost: bool) -> Accepted | Failure:
        refused: dict[str, Refusal] = {}
        suppressed = 0
        for address in envelope.recipients:
            behaviour = _behaviour(address)
            if behaviour == "suppressed":
                suppressed += 1
            refusal = self._refusal(envelope, address, behaviour)
            if refusal is not None:
                refused[address] = refusal
            answer_lost = answer_lost or behaviour == "maybe"
        if envelope.recipients and suppressed == len(envelope.recipients):
            return Failure("suppressed", "suppress", detail="on the suppression list")
        if refused and len(refused) == len(envelope.recipients):
            return _all_refused(refused)
        taken = tuple(address for address in envelope.recipients if address not in refused)
        receipt = self._accept(envelope, taken)
        if answer_lost:
            return msgspec.structs.replace(_LOST, refused=refused)
        return Accepted(receipt, refused)

    def _refusal(self, envelope: Envelope, address: str, behaviour: str | None) -> Refusal | None:
        if behaviour == "bounce":
            return Refusal(permanent=True, code="550", detail="5.1.1 no such mailbox")
        if behaviour == "suppressed":
            return Refusal(permanent=True, code="suppressed", detail="on the suppression list")
        if behaviour == "down":
            return Refusal(permanent=False, code="451", detail="4.3.0 try again later")
        if behaviour is not None and behaviour.startswith("soft-"):
            self._put_off[envelope.delivery_id, address] += 1
            if self._put_off[envelope.delivery_id, address] <= int(behaviour[5:] or 1):
                return Refusal(permanent=False, code="451", detail="4.2.0 try again later")
        return None

    def _accept(self, envelope: Envelope, recipients: tuple[str, ...]) -> Receipt:
        number = self.ledger.total + 1
        notification_id = f"stub-{envelope.token[:8]}-{number}"
        digest = hashlib.sha256(envelope.data).hexdigest()
        self.ledger.write(
            Entry(envelope.delivery_id, envelope.token, recipients, digest, notification_id)
        )
        return Receipt(notification_id)

    async def close(self) -> None:
        self.ledger.close()


class StubSend(Struct):
    provider: StubProvider
    envelope: Envelope
    abandoned: bool = field(default=False)
    arrival: asyncio.Handle | None = None

    async def commit(self) -> Accepted | Failure:
        self.provider.leave(self.envelope)
        if self.provider.latency_s:
            await asyncio.sleep(self.provider.latency_s)
        return self.provider.arrive(self.envelope)

    def start(self, told: Callable[[Accepted | Failure], None]) -> None:
        latency_s = self.provider.latency_s
        self.provider.leave(self.envelope)
        if latency_s:
            self.arrival = asyncio.get_running_loop().call_later(latency_s, self._arrive, told)
        else:
            self._arrive(told)

    def _arrive(self, told: Callable[[Accepted | Failure], None]) -> None:
        told(self.provider.arrive(self.envelope))

    def withdraw(self) -> bool:
        if self.arrival is not None:
            self.arrival.cancel()
        return True

    async def abandon(self) -> None:
        self.abandoned = True


def answer_for(word: str) -> Accept | Failure:
    """The answer for a word of the script."""
    known = ANSWERS.get(word)
    if known is not None:
        return known
    if not (word.isascii() and word.isdigit() and len(word) == 3):
        raise SettingsError("provider", f"unknown answer {word!r} in the stub's script")
    if word[0] == "2":
        return Accept()
    return Failure(f"status_{word}", "reject" if word[0] == "4" else "retry", code=word)


def stub_from_url(url: str) -> StubProvider:
    """`stub:?script=503,timeout,202&ledger=FILE&latency_ms=5`."""
    options = dict(parse_qsl(url.partition("?")[2], keep_blank_values=True))
    script = tuple(word.strip() for word in options.pop("script", "").split(",") if word.strip())
    ledger = options.pop("ledger", "")
    latency_ms = options.pop("latency_ms", "0")
    if options:
        raise SettingsError("provider", f"the stub knows no option {min(options)!r}")
    if not latency_ms.isdigit():
        raise SettingsError("provider", "latency_ms must be a whole number of milliseconds")
    return StubProvider(
        script,
        Path(ledger) if ledger else None,
        int(latency_ms) / 1000,
        remembered_bytes=REMEMBERED_BYTES,
    )


def _behaviour(address: str) -> str | None:
    name, at, domain = address.lower().rpartition("@")
    if at + domain != DOMAIN:
        return None
    if name.startswith("soft-") and not name[5:].isdigit():
        return None
    return name


def _all_refused(refused: dict[str, Refusal]) -> Failure:
    first = next(iter(refused.values()))
    if all(refusal.permanent for refusal in refused.values()):
        return Failure(
            "recipient_refused",
            "reject",
            code=first.code,
            detail=first.detail or "",
            refused=refused,
        )
    put_off = next(refusal for refusal in refused.values() if not refusal.permanent)
    return Failure(
        "recipient_deferred", code=put_off.code, detail=put_off.detail or "", refused=refused
    )
