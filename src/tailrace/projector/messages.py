"""The messages of one turn in order, including those that an earlier process left.

It owns the order. An existing message is used again if it can get the next text, else it is dropped. If a message has
to be posted again, all messages after it are posted again too, so that the order stays. `AnswerText` decides what the
messages say, the projector when they are sent.
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
    """The messages of one turn. `earlier` are those of an earlier process, used again from the first one on."""

    __slots__ = ("_earlier", "_finished", "_limits", "_of_run", "_sealed", "all")

    def __init__(self, limits: Capabilities, earlier: Iterable[TurnMessage]) -> None:
        self.all: list[TurnMessage] = []
        self._limits = limits
        self._earlier = list(earlier)
        self._finished = 0  # how many messages at the start of `all` are finished
        self.begin_run()

    def begin_run(self) -> None:
        """Begin a run of text after all messages."""
        self._of_run: list[TurnMessage] = []
        self._sealed = 0  # how many messages of the run are sealed

    @property
    def has_earlier(self) -> bool:
        """Whether an earlier process left messages that are not used yet."""
        return bool(self._earlier)

    def covers_earlier(self, length: int) -> bool:
        """Whether an earlier process left only one message, and that is a text of at most this length."""
        sent = self._earlier[0].sent if len(self._earlier) == 1 else None
        return sent is not None and length >= sent.size

    @property
    def next_sent(self) -> BodyHash | None:
        """The body that was already sent for the next message of the text, or None."""
        if self._sealed < len(self._of_run):
            return self._of_run[self._sealed].sent
        return self._earlier[0].sent if self._earlier else None

    @property
    def open_message(self) -> TurnMessage | None:
        """The message that is being written, if there is one."""
        message = self._of_run[self._sealed] if self._sealed < len(self._of_run) else None
        return None if message is None or message.is_sealed else message

    def open_or_begin(self) -> TurnMessage:
        """The message that is being written; begins one if there is none."""
        message = self._message_for(None)
        if message.is_sealed:
            message.unseal()
            self._finished = 0
        return message

    def unfinished(self) -> list[TurnMessage]:
        """The messages from the first unfinished one on."""
        while self._finished < len(self.all) and self.all[self._finished].is_finished:
            self._finished += 1
        return self.all[self._finished :]

    def seal(self, body: Body, source: str) -> None:
        """Set the final text of the next message of the run."""
        message = self._message_for(body)
        if message.is_sealed:
            self._finished = 0
        message.seal(body)
        message.source = source
        self._sealed += 1

    def add(self, body: Body) -> None:
        """Add a message that is not part of the agent's text."""
        self._new_message(body).seal(body)

    def add_media(self, media: PostMedia) -> None:
        """Add a medium."""
        self._new_message(None, is_media=True).media = media

    def restart_run(self) -> None:
        """The text of the run changed: seal its messages again from the first one on."""
        self._sealed = self._finished = 0

    def drop_unsealed(self) -> None:
        """Drop the messages of the run that the text of the run does not need."""
        for message in self._of_run[self._sealed :]:
            message.drop()

    def reopen_dropped(self) -> None:
        """Open the first unneeded message of the run again, for text that may still follow."""
        message = self._of_run[self._sealed] if self._sealed < len(self._of_run) else None
        if message is not None and self._can_become(message, None):
            message.unseal()

    def drop_text(self) -> None:
        """Drop all text of the agent."""
        self._finished = 0
        for message in self.all:
            if message.is_text:
                message.drop()

    def drop_unposted(self) -> None:
        """Drop the messages that only a new post can finish. A message with a pending operation stays."""
        for message in self.unfinished():
            is_posted = message.message_id is not None and self._can_become(message, message.body)
            if message.pending is None and not is_posted:
                message.drop()

    def drop_earlier(self) -> None:
        """Drop the messages of an earlier process that this turn does not need."""
        for message in self._earlier:
            message.drop()
        self.all += self._earlier
        self._earlier.clear()

    def repost_after(self, message: TurnMessage) -> None:
        """Replace all messages after this one: this one is posted now, and the others must come after it."""
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
        """The next message of the run that can get this text. Messages before it that cannot get it are dropped."""
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
        """Add a message at the end: one of an earlier process that can get this content, or a new one.

        A medium of an earlier process waits until the agent sends it again: text before it may still be retracted. For
        the same reason a lost message is first dropped, and used again when its text comes.
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
