"""The servers of one run: started on free loopback ports at first need, stopped at its end."""

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from benchmarks.postfix import postfix
from tests import servers

# The peers on Redis get what they are fastest with; our own store demands `always`.
REDIS_OPTIONS = ("--appendfsync", "everysec")


class Loopback:
    """Addresses by name: what is not running yet is started."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._addresses: dict[str, str] = {}
        self._starts: dict[str, Callable[[], None]] = {
            "postgres": self._start_postgres,
            "redis": self._start_redis,
            "smtp": self._start_sink,
            "postfix": self._start_postfix,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def addresses(self, *names: str) -> dict[str, str]:
        for name in names:
            if name not in self._addresses:
                self._starts[name]()
        return dict(self._addresses)

    def _start_postgres(self) -> None:
        server = self._stack.enter_context(servers.postgres())
        self._addresses |= {"postgres": server.url, "postgres_pid": str(server.pid)}

    def _start_redis(self) -> None:
        server = self._stack.enter_context(servers.redis(*REDIS_OPTIONS))
        self._addresses["redis"] = server.url

    def _start_sink(self) -> None:
        sink = self._stack.enter_context(servers.smtp_sink())
        self._addresses |= {"smtp": sink.url, "smtp_log": str(sink.log)}

    def _start_postfix(self) -> None:
        sink = self.addresses("smtp")["smtp"]
        self._addresses["postfix"] = self._stack.enter_context(postfix(int(sink.rsplit(":")[-1])))
