"""Which conversation of an agent belongs to which session, for agents that keep their conversations themselves.

They are kept under ids of the agents' own; which of them is whose is kept here, in a small file each, so that a restart
forgets nothing. What a conversation holds is the agent's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.events import Event, Notice
from tailrace.runtimes.sessions import SessionFiles, session_of, sessions_directory

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.ports import Prompt


class Conversations:
    """The conversations of one runtime; a prompt of no session has none."""

    def __init__(self, runtime: str, folder: Path | None = None) -> None:
        self._files = SessionFiles(folder or sessions_directory() / runtime)
        self._known: dict[str, str] = {}

    def of(self, prompt: Prompt) -> str:
        """The conversation to go on with; empty where there is none."""
        session = session_of(prompt)
        if session and session not in self._known:
            self._known[session] = (self._files.load(session) or b"").decode(errors="replace")
        return self._known.get(session, "")

    def remember(self, prompt: Prompt, conversation: str) -> list[Event]:
        """The conversation that the prompt's session is in from now on; what is to be said of that.

        One that cannot be kept is known for as long as this process runs.
        """
        session = session_of(prompt)
        if not (session and conversation) or self._known.get(session) == conversation:
            return []
        self._known[session] = conversation
        try:
            self._files.keep(session, conversation.encode())
        except OSError as error:
            return [Notice(text=f"The conversation cannot be remembered: {error}")]
        return []
