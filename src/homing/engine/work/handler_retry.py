"""When a handler is called again: the policy, and the terminal errors, as data."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.errors import TerminalError
from homing.domain.failure import Disposition, Failure
from homing.domain.policy import Exponential, FullJitter, Retry, Stage
from homing.engine.route import classify_exception, judge_as_is


class TerminalHandlerError(TerminalError):
    """Raise a subclass of it in a handler if a retry cannot succeed."""


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """A handler's own policy. Its terminal errors are added to the default ones."""

    base_delay_s: float = 1.0
    multiplier: float = 2.0
    max_delay_s: float = 300.0
    max_attempts: int = 5
    terminal_errors: tuple[type[Exception], ...] = ()

    @property
    def retry(self) -> Retry:
        """The same as a `Retry`."""
        curve = Exponential(
            initial_s=self.base_delay_s, multiplier=self.multiplier, max_s=self.max_delay_s
        )
        return Retry(FullJitter(curve), self.max_attempts)


DEFAULT_RETRY_POLICY = RetryPolicy()


class Rule(Struct, frozen=True):
    """An exception type by its name, and by its package where the name is ambiguous."""

    name: str
    disposition: Disposition
    packages: frozenset[str] = frozenset()

    def fits(self, error_type: type[BaseException]) -> bool:
        package = error_type.__module__.partition(".")[0]
        return error_type.__name__ == self.name and (not self.packages or package in self.packages)


# By name, because every database library has its own IntegrityError and OperationalError. The
# first rule that fits the error, its nearest type first, decides; without one it is transient.
RULES: tuple[Rule, ...] = (
    Rule("TerminalError", "reject", frozenset({"homing"})),
    Rule("IntegrityError", "reject"),
    Rule("IntegrityConstraintViolationError", "reject", frozenset({"asyncpg"})),
    Rule("ValidationError", "reject", frozenset({"pydantic", "pydantic_core"})),
    Rule("ConnectionError", "retry"),
    Rule("TimeoutError", "retry"),
    Rule("OperationalError", "retry"),
)
DEFAULT: Disposition = "retry"


def judge(problem: Exception | Failure, stage: Stage) -> Failure:
    """An error that a handler raised is classified by its type; a returned Failure is unchanged."""
    failure = judge_as_is(problem, stage)
    if isinstance(problem, Failure):
        return failure
    return replace(failure, disposition=disposition_of(problem))


def disposition_of(error: Exception) -> Disposition:
    for error_type in type(error).__mro__:
        for rule in RULES:
            if rule.fits(error_type):
                return rule.disposition
    return DEFAULT


def terminal(error: Exception) -> Failure:
    """The failure of an error that is treated as terminal."""
    return replace(classify_exception(error), disposition="reject")
