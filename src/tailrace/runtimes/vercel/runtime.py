"""Runs an agent behind a chat route of the AI SDK: one POST per turn.

This module owns the request, all ways in which it can end, and the files in which histories are saved. The translator
knows what the chunks mean, and the history keeps the messages that are sent with a question.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

from tailrace.events import Event, Notice, TurnStarted
from tailrace.runtimes.endpoint import Endpoint
from tailrace.runtimes.http import READ_TIMEOUT_S, HttpFault
from tailrace.runtimes.sessions import SessionFile, session_of
from tailrace.runtimes.vercel.history import VercelHistory
from tailrace.runtimes.vercel.translator import VercelTranslator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tailrace.ports import Prompt


class VercelRuntime:
    """Runs turns with a chat route, which gets the same requests as from `useChat`.

    `headers` and `read_timeout_s` are those of `Endpoint`. The completed answers of a session are saved in a file of
    this user, unless `remembers` is False.
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
        """Send one request. Closing this iterator closes the connection, which aborts the request."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        session = session_of(prompt) if self._remembers else ""
        saved = SessionFile(self.name, session, self._endpoint.url)
        history = VercelHistory(await saved.load())
        chat_id, message_id, answer_id = (uuid.uuid4().hex for _ in range(3))
        body = history.request_body(prompt.text, chat_id=session or chat_id, message_id=message_id, answer_id=answer_id)
        translator = VercelTranslator()
        try:
            async with aclosing(self._endpoint.post(body)) as natives:
                async for native in natives:
                    history.feed(native)
                    for event in translator.feed(native):
                        yield event
                    if translator.is_done:
                        break
        except HttpFault as fault:
            translator.fail(str(fault), code=fault.code, status_code=fault.status_code)
        if translator.is_complete and (problem := await saved.save(history.encode)):
            yield Notice(text=f"This will not be remembered: {problem}")
        for event in translator.close():
            yield event
