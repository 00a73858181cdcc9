"""When a handler is called again after an error: the terminal errors, as data."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.failure import Disposition, Failure
from homing.domain.policy import Stage
from homing.engine.route import classify_exception, judge_as_is


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
