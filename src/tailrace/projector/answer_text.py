"""The answer of a turn as messages in order: text cut into messages, media, and notes such as errors.

`AnswerText` owns which text is valid (without reasoning, silent replies and retracted text), and where one message ends
and the next begins. The text between two media or notes is a `TextRun`; only the last run still grows. `TurnMessages`
decides which message gets which text. The projector decides when a message is sent, and `LivePreview` how the message
looks until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.deliveries import Snapshot
from tailrace.markdown import render, units
from tailrace.markdown.splitter import Splitter
from tailrace.operations import PostMedia
from tailrace.projector.blocks import Blocks
from tailrace.projector.messages import TurnMessages
from tailrace.projector.speech_filter import SpeechFilter
from tailrace.projector.text_run import TextRun

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from tailrace.capabilities import Capabilities
    from tailrace.events import Media
    from tailrace.operations import Target
    from tailrace.projector.message import TurnMessage
    from tailrace.projector.speech_filter import FilteredText


class AnswerText:
    """The answer of one turn. `earlier` are messages that a process sent for this turn before it crashed.

    With `keeps_appended`, new text is collected until `take_appended` is called. Callers that never call that method
    must not set `keeps_appended`, because the whole answer would be collected.
    """

    def __init__(
        self,
        target: Target,
        limits: Capabilities,
        *,
        blocks: Blocks | None,
        keeps_appended: bool,
        silent: tuple[str, ...],
        earlier: Iterable[TurnMessage] = (),
    ) -> None:
        self.messages = TurnMessages(limits, earlier)
        self.appended: list[str] = []  # new text since `take_appended`, blank lines between blocks included
        self.revision = 0  # changes whenever text is retracted or replaced
        self.reasoning: list[str] = []  # text that the filter recognised as reasoning; the projector takes it
        self._target = target
        self._limits = limits
        self._blocks = blocks
        self._keeps_appended = keeps_appended
        self._filter = SpeechFilter(silent)
        self._media: set[str] | None = None
        self._has_earlier_runs = False  # whether a run that has ended has text
        self._begin_run()

    def _begin_run(self) -> None:
        self.run = TextRun(self._splitter)
        self._laid_out = 0  # how many parts of the run are messages
        self.appended.clear()
        self.messages.begin_run()
        if self._blocks is not None:
            self._blocks.clear()

    def _splitter(self) -> Splitter:
        limits, by_paragraph = self._limits, self._blocks is not None
        return Splitter(limits.limit, limits.unit, limits.dialect, lines=limits.lines, at_paragraphs=by_paragraph)

    @property
    def is_behind(self) -> bool:
        """Whether a process that crashed had sent more text of this turn than this process has been fed so far.

        The events of the turn are fed again from the beginning. Until all sent text is known again, no message is
        changed.
        """
        if not self.messages.has_earlier:
            return False
        return self._blocks is not None or not self.messages.covers_earlier(len(self.run.tail))

    def _note_appended(self, text: str) -> None:
        if self._keeps_appended and text:
            self.appended.append(text)

    def take_appended(self, limit: int | None) -> str:
        """The text that came since the last call of this method.

        At most `limit` characters; the rest stays for the next call.
        """
        text = "".join(self.appended)
        self.appended.clear()
        if limit is not None and len(text) > limit:
            self.appended.append(text[limit:])
            text = text[:limit]
        return text

    def feed(self, text: str) -> None:
        """Add the next piece of the agent's text."""
        self._add(self._filter.feed(text))

    def _add(self, filtered: FilteredText) -> None:
        if filtered.retract:
            self.reasoning.append(filtered.reasoning_in(self.run.block))
            self.run.replace_block("")
            self._lay_out_again()
        if filtered.text:
            self._note_appended(self.run.feed(filtered.text))
        if filtered.reasoning:
            self.reasoning.append(filtered.reasoning)

    def end_message(self) -> None:
        """End the message that is being written, if its last block is complete: later text goes into a new message."""
        if self.run.end_part():
            self._lay_out()

    def break_text(self) -> None:
        """End the open block, because an event that is not text came, such as a tool call.

        A later retraction with scope "block" does not remove text before that event.
        """
        self._add(self._filter.end_block())
        self._note_appended(self.run.seal())
        self.run.end_segment()

    def close_block(self, text: str | None) -> None:
        """Complete the open block.

        `text`, if given, is its whole text; if no block is open, `text` becomes a new block.
        """
        if text is None:
            self._add(self._filter.end_block())
        else:
            self._filter.reset_block()
            filtered, rest = self._filter.feed(text), self._filter.end_block()
            self._set_block(rest.text if rest.retract else filtered.text + rest.text)
            self.reasoning += [part.reasoning for part in (filtered, rest) if part.reasoning]
        self._note_appended(self.run.seal())

    def _set_block(self, text: str) -> None:
        before = self.run.block
        if text == before:
            return
        if text.startswith(before):
            self._note_appended(self.run.feed(text.removeprefix(before)))
        else:
            self.run.replace_block(text)
            self._lay_out_again()

    def retract(self, scope: Literal["block", "turn"]) -> None:
        """Remove text: with "block" all since the last event that was not text, with "turn" all text of the turn."""
        if scope == "block":
            self._filter.reset_block()
            self.run.retract()
        else:
            self.run.clear()
            self._has_earlier_runs = False
            self.messages.drop_text()
        if not self._has_text:
            self._filter.reset_turn()
        self._lay_out_again()

    @property
    def _has_text(self) -> bool:
        return self._has_earlier_runs or self.run.has_text

    def unsent(self, *, waits_for_end: bool) -> Snapshot:
        """The text that no final or pending operation contains yet.

        If a live message already shows the beginning of this text, the result has its id.
        """
        texts: list[str] = []
        first: TurnMessage | None = None
        for message in self.messages.unfinished():
            is_waiting = message.is_text and message.is_sealed and not message.dropped
            if is_waiting and not message.is_finished and not message.final_is_sent:
                first = first or message
                texts.append(message.unsent_part(message.source))
        if self._blocks is not None:
            texts.append(self._blocks.waiting_text)
        if waits_for_end and not self._laid_out:
            texts.append(self.run.text)
        else:
            open_message, tail = self.messages.open_message, self.run.tail
            first = first or open_message
            rest = "".join(part.text + part.seam for part in self.run.parts[self._laid_out :]) + tail
            texts.append(open_message.unsent_part(rest) if open_message is not None else rest)
        if first is None:
            return Snapshot(text="".join(texts))
        return Snapshot(text="".join(texts), message_id=first.message_id, is_stream=first.is_stream)

    def add_media(self, media: Media) -> None:
        """Add a picture, a sound or a file after the text, unless the turn has already sent it."""
        addresses = {address for address in (media.url, media.path) if address}
        if not addresses or (self._media and addresses & self._media):
            return
        self._media = addresses | (self._media or set())
        self._end_run()
        limits = self._limits
        caption = render(media.caption, limits.dialect)
        fits = units.size(caption.text, limits.unit) <= (limits.caption_limit or limits.limit)
        self.messages.add_media(
            PostMedia(
                target=self._target,
                url=media.url,
                path=media.path,
                mime=media.mime,
                caption=caption.text if fits else "",
                entities=caption.entities if fits else (),
            )
        )
        if not fits:
            self.add_note(media.caption)

    def add_note(self, text: str) -> None:
        """Add a text that the agent did not write, such as an error, after the agent's text."""
        self._end_run()
        limits = self._limits
        splitter = Splitter(limits.limit, limits.unit, limits.dialect, lines=limits.lines)
        for part in splitter.feed(text) + splitter.close():
            self.messages.add(part.body)

    def seal_parts(self) -> None:
        """Give each message that is complete now its final text."""
        self.run.split()
        if self._laid_out < len(self.run.parts):
            self._lay_out()

    def cut(self) -> bool:
        """End the message that is being written at the best boundary of its text so far.

        Returns False if there is no good boundary.
        """
        if self.run.cut():
            self._lay_out()
            return True
        return False

    def flush_blocks(self) -> None:
        """Make messages of the paragraphs that wait for more text, because no text came for a while.

        The last paragraph is included only if its block is complete.
        """
        if self._blocks is not None:
            if self.run.has_sealed_tail:
                self.run.close()
            self._lay_out(gather=False)

    @property
    def is_gathering(self) -> bool:
        """Whether paragraphs are held back because a later paragraph may share a message with them."""
        return self._blocks is not None and (self._blocks.has_waiting or self.run.has_sealed_tail)

    def complete(self, text: str | None, *, is_cancelled: bool = False) -> None:
        """Complete the answer, because the turn has ended.

        `text` is the whole answer for a turn in which no text came before; otherwise it is ignored.
        """
        self.complete_text(text, is_cancelled=is_cancelled)
        self._end_run()

    def complete_text(self, text: str | None, *, is_cancelled: bool = False) -> None:
        """Complete the text as `complete` does, but make no messages of it: for a caller that needs only the text."""
        self._add(self._filter.end_block())
        if text and not self._has_text and not self._filter.is_silent:
            self._filter.reset_turn()
            self._add(self._filter.feed(text))
        self._add(self._filter.close(is_cancelled=is_cancelled))

    def end(self) -> None:
        """End the answer: nothing is added after this.

        Messages that a crashed process sent and that the answer does not need are removed from the chat.
        """
        self._end_run()
        self.messages.drop_earlier()

    def cancel(self) -> None:
        """End the answer of a cancelled turn.

        Messages that people already see are finished; no new message is posted.
        """
        self.complete(None, is_cancelled=True)
        self.end()
        self.messages.drop_unposted()

    def _end_run(self) -> None:
        self._add(self._filter.end_block())
        self._has_earlier_runs = self._has_text
        self.run.close()
        self._lay_out(gather=False)
        self.messages.drop_unsealed()
        self._begin_run()

    def _lay_out_again(self) -> None:
        """Assign the text since the last medium or note to messages once more, because a part of it has changed."""
        self.revision += 1
        self._laid_out = 0
        if self._blocks is not None:
            self._blocks.clear()
        self.messages.restart_run()
        self.run.split()
        self._lay_out()
        self.messages.drop_unsealed()
        if self._blocks is None:
            self.messages.reopen_dropped()

    def _lay_out(self, *, gather: bool = True) -> None:
        """Make messages with final text of those parts of the answer that are complete but in no message yet."""
        parts = self.run.parts[self._laid_out :]
        self._laid_out = len(self.run.parts)
        self.appended.clear()
        if self._blocks is None:
            for part in parts:
                self.messages.seal(part.body, part.text + part.seam)
            return
        self._blocks.add(parts)
        while (found := self._blocks.next(self.messages.next_sent, gather=gather)) is not None:
            self.messages.seal(*found)
