"""The Homing of a Django project. In a test run it does not use the project's store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from django.core import mail

from homing.domain.errors import NotAllowed
from homing.domain.message import Message
from homing.engine.process.engine import Engine
from homing.engine.route import Route
from homing.ports import Clock, Provider, Random, Store
from homing.providers.stub import StubProvider
from homing.runtime.app import Homing
from homing.runtime.clock import SystemClock, SystemRandom
from homing.stores.memory.disk import MemoryDisk
from homing.testing.store import OutboxStore

# Loaded by pytest alone, in every run of it, with and without pytest-django.
PYTEST_PLUGIN = "homing.testing.plugin"


def is_test_run() -> bool:
    """Whether pytest runs in this process, or Django's `setup_test_environment` was called, as
    every test runner of Django does."""
    if PYTEST_PLUGIN in sys.modules:
        return True
    # Django has no public question for it: `mail.outbox` exists with its locmem backend too.
    state = getattr(sys.modules.get("django.test.utils"), "_TestState", None)
    return hasattr(state, "saved_data")


class ProjectHoming(Homing):
    """In a test run it uses a store in memory, which is empty at the start of each test of Django's
    test cases, and sends no mail.

    A test run begins after the applications and their handlers were loaded. Django sends no signal
    then, so every access to the store checks it.
    """

    _test_store: OutboxStore | None = None
    _mailbox: object = None

    async def start(self) -> None:
        self._avoid_project_store()
        await super().start()

    def _made_engine(self) -> Engine:
        self._avoid_project_store()
        return super()._made_engine()

    def _route_for(self, message: Message, name: str | None) -> Route:
        self._avoid_project_store()
        return super()._route_for(message, name)

    @contextmanager
    def _replaced(
        self, *, store: Store, provider: Provider, clock: Clock, rng: Random
    ) -> Iterator[None]:
        self._avoid_project_store()
        if self.store is self._test_store and self.running_in is not None:
            self.sync.stop()  # an earlier test started it
        with super()._replaced(store=store, provider=provider, clock=clock, rng=rng):
            yield

    def _avoid_project_store(self) -> None:
        if not is_test_run():
            return
        if self._test_store is None:
            if self.running_in is not None:
                raise NotAllowed(
                    "Homing was started before the test run, on the project's own store:"
                    " stop it, or do not use it while the applications are loaded"
                )
            store = OutboxStore()
            self._test_parts = ExitStack()
            self._test_parts.enter_context(
                super()._replaced(
                    store=store, provider=StubProvider(), clock=SystemClock(), rng=SystemRandom()
                )
            )
            self._test_store = store
        mailbox = getattr(mail, "outbox", None)  # there is none with pytest alone
        if self._mailbox is not mailbox:  # Django makes another before each test
            self._mailbox = mailbox
            self._test_store.disk = MemoryDisk()
