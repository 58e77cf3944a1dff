"""Asking an agent behind a chat route of the AI SDK: one POST per turn.

Owns the request and its end however it comes, and where conversations are kept. What the chunks mean is the
translator's, and what is sent along the transcript's.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

from tailrace.events import Event, Notice, TurnStarted
from tailrace.runtimes.endpoint import Endpoint
from tailrace.runtimes.http import READ_TIMEOUT_S, HttpFault
from tailrace.runtimes.sessions import SessionFiles, session_of, sessions_directory
from tailrace.runtimes.vercel.transcript import Transcript
from tailrace.runtimes.vercel.translator import VercelTranslator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tailrace.ports import Prompt


class VercelRuntime:
    """A chat route as a runtime, as `useChat` would ask it. `headers` and `read_timeout_s` are as `Endpoint` has them.

    A session remembers the answers that were completed, in a file of this user; without `remembers` none is kept.
    """

    name = "vercel"

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        read_timeout_s: float = READ_TIMEOUT_S,
        remembers: bool = True,
    ) -> None:
        self._endpoint = Endpoint(url, headers=headers, read_timeout_s=read_timeout_s)
        self._remembers = remembers

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """One answer; closing this closes the connection, which the route takes as an abort."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        session = session_of(prompt) if self._remembers else ""
        memory, place = SessionFiles(sessions_directory() / "vercel"), f"{self._endpoint.url}\n{session}"
        transcript = Transcript(await asyncio.to_thread(memory.load, place) if session else None)
        chat_id, message_id, answer_id = (uuid.uuid4().hex for _ in range(3))
        question = transcript.ask(prompt.text, chat_id=session or chat_id, message_id=message_id, answer_id=answer_id)
        translator = VercelTranslator()
        try:
            async with aclosing(self._endpoint.post(question)) as said:
                async for native in said:
                    transcript.feed(native)
                    for event in translator.feed(native):
                        yield event
                    if translator.is_done:
                        break
        except HttpFault as fault:
            translator.broke(str(fault), code=fault.code, status_code=fault.status_code)
        if session and translator.is_complete:
            try:
                await asyncio.to_thread(memory.save, place, transcript.keep())
            except (OSError, ValueError, TypeError) as error:
                yield Notice(text=f"This will not be remembered: {error}")
        for event in translator.close():
            yield event
