"""Stores which conversation belongs to which session, for agents that store their conversations themselves.

Such an agent gives each conversation an id. Here a small file for each session stores that id, so that the next turn
can continue the conversation, also after a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.events import Event, Notice
from tailrace.runtimes.sessions import SessionFiles, session_of, sessions_directory

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.ports import Prompt


class Conversations:
    """The conversations of one runtime. A prompt without a session has no conversation."""

    def __init__(self, runtime: str, folder: Path | None = None) -> None:
        self._files = SessionFiles(folder or sessions_directory() / runtime)
        self._by_session: dict[str, str] = {}

    def get(self, prompt: Prompt) -> str:
        """The id of the conversation that the prompt continues; empty if there is none."""
        session = session_of(prompt)
        if session and session not in self._by_session:
            self._by_session[session] = (self._files.load(session) or b"").decode(errors="replace")
        return self._by_session.get(session, "")

    def remember(self, prompt: Prompt, conversation: str) -> list[Event]:
        """Store which conversation belongs to the prompt's session. Returns a notice if the file cannot be written.

        The conversation is then remembered only until this process ends.
        """
        session = session_of(prompt)
        if not (session and conversation) or self._by_session.get(session) == conversation:
            return []
        self._by_session[session] = conversation
        try:
            self._files.save(session, conversation.encode())
        except OSError as error:
            return [Notice(text=f"The conversation cannot be remembered: {error}")]
        return []
