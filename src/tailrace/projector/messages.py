"""The messages of one turn in order, including those that a process sent before it crashed.

This module owns the order. If a message exists already and can be changed to the next text, it is used again; otherwise
it is dropped. If a message has to be posted again, all messages after it are posted again too, so that the order stays.
`AnswerText` decides what the messages say, the projector when they are sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.projector.message import TurnMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.capabilities import Capabilities
    from tailrace.operations import Body, PostMedia
    from tailrace.projector.message import BodyHash


class TurnMessages:
    """The messages of one turn. `earlier` are those that a crashed process sent; they are used again in their order.

    A run is the text between two media or notes (see `text_run`). Text is only written into messages of the present
    run.
    """

    __slots__ = ("_earlier", "_finished", "_limits", "_of_run", "_sealed", "all")

    def __init__(self, limits: Capabilities, earlier: Iterable[TurnMessage]) -> None:
        self.all: list[TurnMessage] = []
        self._limits = limits
        self._earlier = list(earlier)
        self._finished = 0  # how many messages at the start of `all` are finished
        self.begin_run()

    def begin_run(self) -> None:
        """Begin a new run (the text up to the next medium or note). Its messages come after all present messages."""
        self._of_run: list[TurnMessage] = []
        self._sealed = 0  # how many messages of the run are sealed

    @property
    def has_earlier(self) -> bool:
        """Whether a crashed process sent messages that have no text from this process yet."""
        return bool(self._earlier)

    def covers_earlier(self, length: int) -> bool:
        """Whether a text of this length is at least as long as all text that a crashed process sent.

        This is only known if that process sent one text message and nothing more; otherwise the result is False.
        """
        sent = self._earlier[0].sent if len(self._earlier) == 1 else None
        return sent is not None and length >= sent.size

    @property
    def next_sent(self) -> BodyHash | None:
        """The body that the message for the next text already has in the chat, or None."""
        if self._sealed < len(self._of_run):
            return self._of_run[self._sealed].sent
        return self._earlier[0].sent if self._earlier else None

    @property
    def open_message(self) -> TurnMessage | None:
        """The message that is being written: its final text is not known yet. None if there is none."""
        message = self._of_run[self._sealed] if self._sealed < len(self._of_run) else None
        return None if message is None or message.is_sealed else message

    def open_or_begin(self) -> TurnMessage:
        """The message that is being written. If there is none, a new one begins."""
        message = self._message_for(None)
        if message.is_sealed:
            message.unseal()
            self._finished = 0
        return message

    def unfinished(self) -> list[TurnMessage]:
        """All messages from the first one that still needs an operation or an outcome."""
        while self._finished < len(self.all) and self.all[self._finished].is_finished:
            self._finished += 1
        return self.all[self._finished :]

    def seal(self, body: Body, source: str) -> None:
        """Set the final text of the next message that has text of the agent. `source` is its Markdown."""
        message = self._message_for(body)
        if message.is_sealed:
            self._finished = 0
        message.seal(body)
        message.source = source
        self._sealed += 1

    def add(self, body: Body) -> None:
        """Add a message with a text that the agent did not write."""
        self._new_message(body).seal(body)

    def add_media(self, media: PostMedia) -> None:
        """Add a message with a picture, a sound or a file."""
        self._new_message(None, is_media=True).media = media

    def restart_run(self) -> None:
        """Set the final texts after the last medium or note again, because the text has changed."""
        self._sealed = self._finished = 0

    def drop_unsealed(self) -> None:
        """Drop the messages after the last medium or note for which no text is left."""
        for message in self._of_run[self._sealed :]:
            message.drop()

    def reopen_dropped(self) -> None:
        """Keep the first message for which no text was left, because later text may be written into it."""
        message = self._of_run[self._sealed] if self._sealed < len(self._of_run) else None
        if message is not None and self._can_become(message, None):
            message.unseal()

    def drop_text(self) -> None:
        """Drop all messages with text of the agent."""
        self._finished = 0
        for message in self.all:
            if message.is_text:
                message.drop()

    def drop_unposted(self) -> None:
        """Drop the messages that are not in the chat yet, or that only a new post could finish.

        A message with a pending operation is not dropped.
        """
        for message in self.unfinished():
            is_posted = message.message_id is not None and self._can_become(message, message.body)
            if message.pending is None and not is_posted:
                message.drop()

    def drop_earlier(self) -> None:
        """Drop the messages of a crashed process that were not used again."""
        for message in self._earlier:
            message.drop()
        self.all += self._earlier
        self._earlier.clear()

    def repost_after(self, message: TurnMessage) -> None:
        """Post all messages after this one again and delete the old ones, because this one is posted only now.

        Otherwise the messages would be in the wrong order. If the channel cannot delete messages, nothing is changed.
        """
        if not self._limits.deletes:
            return
        for index in range(len(self.all) - 1, self.all.index(message), -1):
            later = self.all[index]
            if later.message_id is None or later.dropped or later.pending is not None:
                continue
            again = later.replaced()
            self.all.insert(index + 1, again)
            self._of_run = [again if known is later else known for known in self._of_run]
        self.drop_earlier()

    def _message_for(self, body: Body | None) -> TurnMessage:
        """The next message after the last medium or note that can be changed to this text.

        Those before it are dropped.
        """
        while True:
            has_next = self._sealed < len(self._of_run)
            message = self._of_run[self._sealed] if has_next else self._new_text_message(body)
            if self._can_become(message, body):
                return message
            self._of_run.remove(message)
            message.drop()

    def _can_become(self, message: TurnMessage, body: Body | None) -> bool:
        return message.can_become(body, edits=self._limits.edits is not None)

    def _new_text_message(self, body: Body | None) -> TurnMessage:
        message = self._new_message(body)
        message.is_text = True
        self._of_run.append(message)
        return message

    def _new_message(self, body: Body | None, *, is_media: bool = False) -> TurnMessage:
        """Add a message at the end: one of a crashed process if it can get this content, else a new one.

        A medium of a crashed process waits until the agent sends that medium again, because the text before it may
        still be retracted. For the same reason a message that did not arrive is first dropped, and used again when its
        text comes.
        """
        while self._earlier and (is_media or self._earlier[0].media is None):
            message = self._earlier.pop(0)
            self.all.append(message)
            if (message.media is not None) is is_media and self._can_become(message, body):
                return message
            message.drop()
        # A lost message after a waiting medium is not dropped yet.
        candidates = [known for known in self.all if known.dropped] + self._earlier
        lost = (known for known in candidates if known.lost and known.media is None and self._can_become(known, body))
        found = next(lost, None) if body is not None else None
        if found is not None:
            self.all = [known for known in self.all if known is not found]
            self._earlier = [known for known in self._earlier if known is not found]
            self._finished = 0
        self.all.append(found or TurnMessage())
        return self.all[-1]
