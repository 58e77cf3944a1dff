"""The faults of a simulated platform, and the script that says to which calls they apply.

A `Fault` says two independent things: whether the platform performs the call, and which answer the caller gets. A
`Rule` says to which calls a fault applies. It matches calls by their kind and chat, and counts them. The fault applies
from the `at`-th match on, to `times` calls. If several rules match a call, only the first of them applies. With the
default values a rule applies once, to the next call: several such rules apply to one call each, in their order.
`tailrace.testing.platform` performs the faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    import random


class Refuse(msgspec.Struct, frozen=True, tag_field="fault", tag="refuse"):
    """The platform does not perform the call and refuses it for good."""

    status: int = 403
    reason: str = "the bot was blocked"


class LoseAccess(msgspec.Struct, frozen=True, tag_field="fault", tag="lose_access"):
    """The platform does not perform the call: the bot was removed from the chat.

    With `everywhere`, its token was revoked.

    A rule with `times=None` applies until it is removed. If the fault applies to a call of the kind `poll`, the
    connection ends for good.
    """

    everywhere: bool = False


class TooMany(msgspec.Struct, frozen=True, tag_field="fault", tag="too_many"):
    """The platform does not perform the call and answers with status 429.

    `retry_after` is the value of that header: seconds, None for no header, or nonsense (`1e9`, `-5`, `"soon"`).
    """

    retry_after: float | str | None = None
    everywhere: bool = False


class ServerError(msgspec.Struct, frozen=True, tag_field="fault", tag="server_error"):
    """The platform answers with a status 5xx. It performs the call only if `applied` is true.

    The status 503 means that the call was not performed, so it cannot be used with `applied`.
    """

    status: int = 503
    applied: bool = False

    def __post_init__(self) -> None:
        if self.applied and self.status == 503:
            raise ValueError("503 says that the call was not performed: use another status with applied=True")


class Unreachable(msgspec.Struct, frozen=True, tag_field="fault", tag="unreachable"):
    """There is no connection, so the call never arrives. A platform process has `close_port` for this."""


class Reset(msgspec.Struct, frozen=True, tag_field="fault", tag="reset"):
    """The connection is reset after the request was read. The call is performed only if `applied` is true."""

    applied: bool = True


class Cut(msgspec.Struct, frozen=True, tag_field="fault", tag="cut"):
    """The connection ends after half of the answer. The call is performed only if `applied` is true."""

    applied: bool = True


class NoAnswer(msgspec.Struct, frozen=True, tag_field="fault", tag="no_answer"):
    """The platform reads the request and never answers. The call is performed only if `applied` is true."""

    applied: bool = True


class Delayed(msgspec.Struct, frozen=True, tag_field="fault", tag="delayed"):
    """The call is performed at once and answered `by_s` seconds later."""

    by_s: float


class SlowBody(msgspec.Struct, frozen=True, tag_field="fault", tag="slow_body"):
    """The call is performed at once. The answer comes in small pieces, the last of them `by_s` seconds later."""

    by_s: float


class Late(msgspec.Struct, frozen=True, tag_field="fault", tag="late"):
    """The platform takes the call, but people see the result only `after_s` seconds later.

    If `answered` is false, the caller never gets an answer. A platform with keys knows the key at once. `find` finds
    the message only when people see it.
    """

    after_s: float
    answered: bool = False


class RepeatUpdates(msgspec.Struct, frozen=True, tag_field="fault", tag="repeat_updates"):
    """The updates that the bot has confirmed last are sent again, before the new ones. For polls and webhooks."""


class ReorderUpdates(msgspec.Struct, frozen=True, tag_field="fault", tag="reorder_updates"):
    """The updates in one answer to a poll come in the reverse order."""


Fault: TypeAlias = (
    Refuse
    | LoseAccess
    | TooMany
    | ServerError
    | Unreachable
    | Reset
    | Cut
    | NoAnswer
    | Delayed
    | SlowBody
    | Late
    | RepeatUpdates
    | ReorderUpdates
)

# The calls that wait for events in the background, of every platform. Counted with the others, they would change which
# call is the n-th.
_BACKGROUND = frozenset({"poll", "getUpdates", "webhook", "socket"})


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Says to which calls a fault applies. If `chat` or `kind` is None, any chat or any kind matches, except polls.

    `kind` is the tag of an operation (`post`, `edit`, …), `find`, `acknowledge` or `poll`, and on a platform with HTTP
    the name of a method; without a kind, a rule does not match polls. The fault applies from the `at`-th match on, to
    `times` calls; None means for ever. If `chance` is set, each call that would get the fault gets it only with this
    probability. The rule ends at the time `until` of the platform's clock.
    """

    fault: Fault
    kind: str | None = None
    chat: str | None = None
    at: int = 1
    times: int | None = 1
    chance: float | None = None
    until: float | None = None


class Script:
    """The rules that apply now. All random numbers come from `source`, so the same seed gives the same run."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._active: list[_ActiveRule] = []

    def add(self, *rules: Rule | Fault) -> None:
        """Add rules after the existing ones. A fault without a rule applies to the next call."""
        self._active += [_ActiveRule(rule if isinstance(rule, Rule) else Rule(fault=rule)) for rule in rules]

    def clear(self) -> None:
        """Remove all rules."""
        self._active.clear()

    @property
    def unspent(self) -> tuple[Rule, ...]:
        """The rules that may still apply to a later call, in order."""
        return tuple(active.rule for active in self._active)

    def next(self, kind: str, chat: str, now: float) -> Fault | None:
        """The fault that applies to this call; None if there is none. Rules count the call as a match."""
        fault: Fault | None = None
        for active in self._active:
            if not active.matches(kind, chat):
                continue
            active.matched += 1
            if fault is None and active.matched >= active.rule.at and self._is_due(active.rule, now):
                fault = active.rule.fault
                active.applied += 1
        self._active = [active for active in self._active if not active.is_over(now)]
        return fault

    def _is_due(self, rule: Rule, now: float) -> bool:
        if rule.until is not None and now >= rule.until:
            return False
        return rule.chance is None or self._source.random() < rule.chance


class _ActiveRule:
    """A rule that applies now. Counts the calls that it has matched, and the calls that got its fault."""

    __slots__ = ("applied", "matched", "rule")

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.matched = 0
        self.applied = 0

    def matches(self, kind: str, chat: str) -> bool:
        rule = self.rule
        right_kind = kind not in _BACKGROUND if rule.kind is None else kind in rule.kind.split("|")
        return right_kind and rule.chat in {None, chat}

    def is_over(self, now: float) -> bool:
        rule = self.rule
        return (rule.times is not None and self.applied >= rule.times) or (rule.until is not None and now >= rule.until)
