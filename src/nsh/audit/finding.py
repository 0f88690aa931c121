"""The result of one check, held against its limits. Knows no check."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a finding means."""

    FINE = "fine"
    WARNING = "warning"
    STOP = "stop"
    UNCHECKED = "not checked"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The largest values of a check without a warning, and without a stop; None: any."""

    warn: float | None = None
    stop: float | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check has found.

    Attributes:
        key: of its limits in params.yaml.
        value: what the limits are compared with; None where it could not be checked.
        found: a clause that says it, with the value.
        remedy: a clause that says what to do where it is too much.
        limit: the limits.
    """

    key: str
    value: float | None
    found: str
    remedy: str
    limit: Limit

    @property
    def verdict(self) -> Verdict:
        """How the value stands to the limits; a value equal to a limit is within it."""
        if self.value is None:
            return Verdict.UNCHECKED
        if self.limit.stop is not None and self.value > self.limit.stop:
            return Verdict.STOP
        if self.limit.warn is not None and self.value > self.limit.warn:
            return Verdict.WARNING
        return Verdict.FINE

    def __str__(self) -> str:
        """Found, allowed, and what to do, in one sentence; what was found alone if that is fine."""
        if self.verdict in (Verdict.FINE, Verdict.UNCHECKED):
            return self.found
        limit = self.limit.stop if self.verdict is Verdict.STOP else self.limit.warn
        return f"{self.found}, allowed is {limit:g} ({self.key}): {self.remedy}, or raise the limit"
