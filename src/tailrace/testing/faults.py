"""What can go wrong with a call to a platform, as values, and the script that says which call it happens to.

A `Fault` says two things that must not be mixed up: whether the platform took the call, and what the caller gets to
see of it. A `Rule` says which calls it befalls. Each rule counts every call that it matches, and befalls those from
its `at`-th on, `times` of them, unless an earlier rule has taken the call: rules without further ado are thus
consumed in their order, one call each. Acting on a fault is left to `tailrace.testing.platform` and its doors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    import random


class Refuse(msgspec.Struct, frozen=True, tag_field="fault", tag="refuse"):
    """Refused for good, and not taken. The code 401 is a token that was revoked, 403 a person who blocked the bot."""

    status: int = 403
    reason: str = "the bot was blocked"


class TooMany(msgspec.Struct, frozen=True, tag_field="fault", tag="too_many"):
    """429, not taken. `retry_after` is the header as it stands: none, seconds, or nonsense (`1e9`, `-5`, `"soon"`)."""

    retry_after: float | str | None = None
    everywhere: bool = False


class ServerError(msgspec.Struct, frozen=True, tag_field="fault", tag="server_error"):
    """5xx. The platform declares that it took nothing where it says 503; after any other status it may have."""

    status: int = 503
    applied: bool = False

    def __post_init__(self) -> None:
        if self.applied and self.status == 503:
            raise ValueError("503 is the platform's word that it took nothing: use another status with applied=True")


class Unreachable(msgspec.Struct, frozen=True, tag_field="fault", tag="unreachable"):
    """No connection: the call never arrived. On a socket this is a closed port, not a call: `close_port`."""


class Reset(msgspec.Struct, frozen=True, tag_field="fault", tag="reset"):
    """The connection is reset after the request was read."""

    applied: bool = True


class Cut(msgspec.Struct, frozen=True, tag_field="fault", tag="cut"):
    """Half of the answer, then the connection ends."""

    applied: bool = True


class NoAnswer(msgspec.Struct, frozen=True, tag_field="fault", tag="no_answer"):
    """The request was read and the answer never comes; without `applied` the platform hangs before doing it."""

    applied: bool = True


class Delayed(msgspec.Struct, frozen=True, tag_field="fault", tag="delayed"):
    """Taken at once, answered `by_s` seconds later."""

    by_s: float


class Late(msgspec.Struct, frozen=True, tag_field="fault", tag="late"):
    """Taken in, and seen by people only `after_s` seconds later; unless `answered`, nothing is heard of it.

    A platform that keeps keys knows this one from the beginning; it can be found only once it is seen.
    """

    after_s: float
    answered: bool = False


Fault: TypeAlias = Refuse | TooMany | ServerError | Unreachable | Reset | Cut | NoAnswer | Delayed | Late


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which calls a fault befalls; what is None does not matter.

    `kind` is the name of an operation (`post`, `edit`, …) or `find`. `times` None is for ever. With a `chance` each
    call that is due is befallen by it alone. `until` ends the rule at that time of the platform's clock.
    """

    fault: Fault
    kind: str | None = None
    chat: str | None = None
    at: int = 1
    times: int | None = 1
    chance: float | None = None
    until: float | None = None


class Script:
    """The rules that are in force. Chances are drawn from `source` alone, so that a seed repeats a run."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._standing: list[_Standing] = []

    def add(self, *rules: Rule | Fault) -> None:
        """Put rules behind those that stand; a bare fault befalls the next call."""
        self._standing += [_Standing(rule if isinstance(rule, Rule) else Rule(fault=rule)) for rule in rules]

    def clear(self) -> None:
        """No call fails from now on."""
        self._standing.clear()

    @property
    def unspent(self) -> tuple[Rule, ...]:
        """The rules that have not befallen as many calls as they were to, in order."""
        return tuple(standing.rule for standing in self._standing)

    def next(self, kind: str, chat: str, now: float) -> Fault | None:
        """What befalls this call."""
        if not self._standing:
            return None
        fault: Fault | None = None
        for standing in self._standing:
            rule = standing.rule
            if (rule.kind is not None and rule.kind != kind) or (rule.chat is not None and rule.chat != chat):
                continue
            standing.seen += 1
            if fault is None and standing.seen >= rule.at and self._strikes(rule, now):
                fault = rule.fault
                standing.befallen += 1
        self._standing = [standing for standing in self._standing if not standing.is_over(now)]
        return fault

    def _strikes(self, rule: Rule, now: float) -> bool:
        if rule.until is not None and now >= rule.until:
            return False
        return rule.chance is None or self._source.random() < rule.chance


class _Standing:
    """A rule in force: how many calls it has matched, and how many it has befallen."""

    __slots__ = ("befallen", "rule", "seen")

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.seen = 0
        self.befallen = 0

    def is_over(self, now: float) -> bool:
        rule = self.rule
        return (rule.times is not None and self.befallen >= rule.times) or (
            rule.until is not None and now >= rule.until
        )
