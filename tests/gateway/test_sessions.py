"""Sessions end after a pause, and those that have ended do not stay in memory or in the ledger."""

from __future__ import annotations

from tailrace.gateway.sessions import Session, Sessions


def test_a_process_that_meets_many_people_keeps_few_sessions() -> None:
    now, stored, most = 0.0, dict[str, Session](), 0

    def store(conversation: str, session: Session | None) -> None:
        if session is None:
            del stored[conversation]
        else:
            stored[conversation] = session

    sessions = Sessions(60.0, lambda: now, changed=store)
    for number in range(50_000):
        now += 0.1  # 600 people within a minute
        sessions.use(f"telegram:{number}", turns=("t",))
        most = max(most, len(stored))
    assert most <= 2_300
    assert sessions.last_turns("telegram:49999") == ("t",)
    assert sessions.last_turns("telegram:1") == ()


def test_a_pause_ends_a_session_and_a_long_turn_does_not() -> None:
    now = 0.0
    sessions = Sessions(60.0, lambda: now)
    first = sessions.use("telegram:1", turns=("1",)).id
    now = 50.0  # the turn takes long
    sessions.end_turn("telegram:1")
    now = 100.0
    assert sessions.use("telegram:1", turns=("2",)).id == first
    now = 161.0
    assert sessions.use("telegram:1", turns=("3",)).id != first
