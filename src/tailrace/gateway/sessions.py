"""Sessions: after a long pause, or when a person asks for it, the agent begins anew and remembers nothing."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MAX_IDLE = 1_000


class Session(msgspec.Struct, kw_only=True):
    """The session of one conversation. `used_at` is when its latest turn began or ended.

    `last_turns` are the turns whose messages were the latest prompt; `/retry` repeats it.
    """

    id: str
    used_at: float
    last_turns: tuple[str, ...] = ()


class Sessions:
    """The current session of each conversation. `changed` is called with each one that changed, and
    with None for one that ended.

    A session that was not used for `timeout_s` by this clock is replaced. A long list of such sessions is shortened.
    """

    def __init__(
        self,
        timeout_s: float,
        clock: Callable[[], float],
        *,
        earlier: Mapping[str, Session] | None = None,
        changed: Callable[[str, Session | None], None] = lambda _conversation, _session: None,
    ) -> None:
        self.timeout_s = timeout_s
        self._clock = clock
        self._sessions = dict(earlier or {})
        self._changed = changed
        self._prune_at = 2 * _MAX_IDLE

    def use(self, conversation: str, *, turns: tuple[str, ...]) -> Session:
        """The session for the next turn of the conversation."""
        session, now = self._sessions.get(conversation), self._clock()
        if session is None or now - session.used_at > self.timeout_s:
            session = self.begin(conversation)
        session.used_at = now
        session.last_turns = turns
        self._changed(conversation, session)
        return session

    def begin(self, conversation: str) -> Session:
        """Begin a new session. `last_turns` stays, so that `/retry` still works."""
        last = self.last_turns(conversation)
        session = Session(id=uuid.uuid4().hex, used_at=self._clock(), last_turns=last)
        self._sessions.pop(conversation, None)
        self._sessions[conversation] = session
        self._changed(conversation, session)
        self._prune()
        return session

    def end_turn(self, conversation: str) -> None:
        """Count the pause from now."""
        if (session := self._sessions.get(conversation)) is not None:
            session.used_at = self._clock()
            self._changed(conversation, session)

    def last_turns(self, conversation: str) -> tuple[str, ...]:
        """The turns whose messages were the latest prompt of the conversation."""
        session = self._sessions.get(conversation)
        return session.last_turns if session is not None else ()

    def _prune(self) -> None:
        """Forget sessions that have ended, so that a long-running process does not grow."""
        if len(self._sessions) < self._prune_at:
            return
        now = self._clock()
        for name in [name for name, session in self._sessions.items() if now - session.used_at > self.timeout_s]:
            del self._sessions[name]
            self._changed(name, None)
        self._prune_at = 2 * len(self._sessions) + _MAX_IDLE
