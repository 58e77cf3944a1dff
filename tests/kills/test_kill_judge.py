"""The judge of the kills finds what is wrong: a trial that went well is shown to it with a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from kills.judge import LedgerContent, Verdict, judge
from kills.trial import Kill, Plan, TrialRunner
from kills.turns import KINDS, TurnInput
from tailrace.deliveries import State, TurnState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.testing.wire import PlatformMessage

Seen = tuple[TurnInput, list["PlatformMessage"], LedgerContent]


@pytest.fixture(scope="module")
def seen() -> Seen:
    """A turn, its messages and the ledger after a trial."""
    with TrialRunner("keyed") as runner:
        runner.clear()
        given = runner.new_turn()
        assert runner.run(given) == 0
        return given, runner.platform.history(), runner.content(given)


def judged(given: TurnInput, messages: list[PlatformMessage], content: LedgerContent, kind: str = "keyed") -> Verdict:
    return judge(given, KINDS[kind], messages, content, seen=frozenset(given.words[:1]))


def with_row(content: LedgerContent, **changes: object) -> LedgerContent:
    return replace(content, rows=[replace(content.rows[0], **changes), *content.rows[1:]])


def with_turn(content: LedgerContent, state: TurnState) -> LedgerContent:
    return replace(content, turns={name: replace(turn, state=state) for name, turn in content.turns.items()})


@pytest.mark.parametrize(
    ("change", "column", "found"),
    [
        (lambda messages, content: (messages[1:], content), "lost", "lacks: w1x00"),
        (lambda messages, content: ([*messages, messages[0]], content), "doubled", "shows twice: w1x00"),
        (lambda messages, content: (messages[::-1], content), "other", "out of order"),
        (lambda messages, content: (messages, with_row(content, state=State.RETRY)), "unfinished", "is retry"),
        (lambda messages, content: (messages, with_row(content, state=State.DEAD)), "other", "is dead"),
        (lambda messages, content: (messages, with_row(content, may_be_double=True)), "other", "may be there twice"),
        (lambda messages, content: (messages, replace(content, turns={})), "unfinished", "is None"),
        (lambda messages, content: (messages, with_turn(content, TurnState.RUNNING)), "unfinished", "is running"),
        (lambda messages, content: (messages, with_turn(content, TurnState.FAILED)), "other", "is failed"),
        (lambda messages, content: (messages, with_turn(content, TurnState.INTERRUPTED)), "unreported", "no line"),
        (lambda messages, content: (messages[:0], with_turn(content, TurnState.INTERRUPTED)), "lost", "lacks: w1x00"),
        (lambda messages, content: (messages[1:], with_row(content, state=State.UNKNOWN)), "unreported", "no line"),
    ],
)
def test_a_change_is_found(
    seen: Seen,
    change: Callable[[list[PlatformMessage], LedgerContent], tuple[list[PlatformMessage], LedgerContent]],
    column: str,
    found: str,
) -> None:
    given, messages, content = seen
    assert judged(given, messages, content) == Verdict()
    verdict = judged(given, *change(messages, content))
    assert any(found in text for text in getattr(verdict, column)), verdict


def test_text_that_was_sent_again_is_excused_only_where_nobody_can_find_out(seen: Seen) -> None:
    given, messages, content = seen
    again = [*messages, replace(messages[0], message_id="m99")]
    assert judged(given, again, with_row(content, may_be_double=True), "unkeyed, resend").doubled == []
    assert judged(given, again, content, "unkeyed, resend").doubled != []


def test_a_kill_at_a_point_that_is_not_reached_is_not_counted() -> None:
    with TrialRunner("keyed") as runner:
        trial = runner.trial(Plan(kills=(Kill("point", point="commit.after:99"), Kill("held", 1))))
        assert (trial.kills.total(), trial.verdict) == (0, Verdict())
