"""What a turn says, as sheets in their order: text cut into messages, media, and words of ours such as errors.

It owns which text stands (after what was only thought, kept silent or taken back) and where one message ends and the
next begins. Which sheet carries it is the sheaf's; when that is sent, and how it looks before it is finished, is the
projector's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.deliveries import Snapshot
from tailrace.markdown import units
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
    from tailrace.projector.speech_filter import Heard


class AnswerText:
    """What one turn says. `earlier` are the sheets that a former process left of it.

    With `is_followed` somebody takes what the text grows by; nobody else would empty the list.
    """

    __slots__ = (
        "_blocks",
        "_flow",
        "_hearing",
        "_is_followed",
        "_limits",
        "_media",
        "_spoke",
        "_taken",
        "_target",
        "edition",
        "grown",
        "reasoning",
        "sheaf",
    )

    def __init__(
        self,
        target: Target,
        limits: Capabilities,
        *,
        blocks: Blocks | None,
        is_followed: bool,
        silent: tuple[str, ...],
        earlier: Iterable[TurnMessage] = (),
    ) -> None:
        self.sheaf = TurnMessages(limits, earlier)
        self.grown: list[str] = []  # the text that came since it was last taken, as it was laid down
        self.edition = 0  # another one whenever text that was laid down is taken back or replaced
        self.reasoning: list[str] = []  # what turned out to be thought only, since it was last taken
        self._target = target
        self._limits = limits
        self._blocks = blocks
        self._is_followed = is_followed
        self._hearing = SpeechFilter(silent)
        self._media: set[str] | None = None
        self._spoke = False  # text stands in a flow that ended
        self._begin_flow()

    def _begin_flow(self) -> None:
        self._flow = TextRun(self._splitter)
        self._taken = 0  # how many of its parts are laid down
        self.grown.clear()
        self.sheaf.begin_text()
        if self._blocks is not None:
            self._blocks.forget()

    def _splitter(self) -> Splitter:
        limits, by_paragraph = self._limits, self._blocks is not None
        return Splitter(limits.limit, limits.unit, limits.dialect, lines=limits.lines, at_paragraphs=by_paragraph)

    @property
    def text(self) -> str:
        """All text of the flow that is open."""
        return self._flow.text

    @property
    def tail(self) -> str:
        """The text of the message that is being written."""
        return self._flow.tail

    @property
    def is_over(self) -> bool:
        """Whether that is more than the message holds: some of it will be said by the next one."""
        return self._flow.is_over

    @property
    def is_behind(self) -> bool:
        """Whether a former process said more than was said until now: what that shall be is not known yet."""
        if not self.sheaf.has_earlier:
            return False
        return self._blocks is not None or not self.sheaf.is_begun(len(self.tail))

    def _grow(self, text: str) -> None:
        if self._is_followed and text:
            self.grown.append(text)

    def take_grown(self, at_most: int | None) -> str:
        """The text that came since it was last taken, or so much of it."""
        text = "".join(self.grown)
        self.grown.clear()
        if at_most is not None and len(text) > at_most:
            self.grown.append(text[at_most:])
            text = text[:at_most]
        return text

    def hear(self, text: str) -> None:
        """The agent said this; of that, people are told what is for them."""
        self._take(self._hearing.feed(text))

    def _take(self, heard: Heard) -> None:
        if heard.retract:
            self.reasoning.append(heard.thought_in(self._flow.block))
            self._flow.replace_block("")
            self._lay_anew()
        if heard.text:
            self._grow(self._flow.feed(heard.text))
        if heard.reasoning:
            self.reasoning.append(heard.reasoning)

    def end_block(self) -> None:
        """Something else than text came: text that follows is another block."""
        self._take(self._hearing.block_end())
        self._grow(self._flow.seal())
        self._flow.end_run()

    def settle_block(self, text: str | None) -> None:
        """The open block is complete; `text`, where given, is what it says, or is one where none is open."""
        if text is None:
            self._take(self._hearing.block_end())
        else:
            self._hearing.reset_block()
            heard, rest = self._hearing.feed(text), self._hearing.block_end()
            self._say_after_all(rest.text if rest.retract else heard.text + rest.text)
            self.reasoning += [part.reasoning for part in (heard, rest) if part.reasoning]
        self._grow(self._flow.seal())

    def _say_after_all(self, text: str) -> None:
        said = self._flow.block
        if text == said:
            return
        if text.startswith(said):
            self._grow(self._flow.feed(text.removeprefix(said)))
        else:
            self._flow.replace_block(text)
            self._lay_anew()

    def retract(self, scope: Literal["block", "turn"]) -> None:
        """What was said must not stand: since the last thing that was no text, or in the whole turn."""
        if scope == "block":
            self._hearing.reset_block()
            self._flow.retract()
        else:
            self._flow.clear()
            self._spoke = False
            self.sheaf.drop_text()
        if not self._has_text:
            self._hearing.reset_turn()
        self._lay_anew()

    @property
    def _has_text(self) -> bool:
        return self._spoke or self._flow.said_anything

    def unsaid(self, *, at_end: bool) -> Snapshot:
        """What no message says yet and none on its way will, and the message that shows the first of it."""
        texts: list[str] = []
        first: TurnMessage | None = None
        for sheet in self.sheaf.unfinished():
            if not sheet.is_text or not sheet.is_sealed or sheet.dropped or sheet.is_over or sheet.final_is_sent:
                continue
            first = first or sheet
            texts.append(sheet.unsaid_of(sheet.source))
        if self._blocks is not None:
            texts.append(self._blocks.gathered)
        if at_end:
            texts.append(self._flow.text)
        else:
            being_written = self.sheaf.open_sheet
            first = first or being_written
            texts.append(being_written.unsaid_of(self.tail) if being_written is not None else self.tail)
        if first is None:
            return Snapshot(text="".join(texts))
        return Snapshot(text="".join(texts), message_id=first.message_id, is_stream=first.is_stream)

    def show_media(self, media: Media) -> None:
        """A medium, behind what was said; one that was shown already is not shown again."""
        places = {place for place in (media.url, media.path) if place}
        if not places or (self._media and places & self._media):
            return
        self._media = places | (self._media or set())
        self._end_flow()
        limits = self._limits
        fits = units.size(media.caption, limits.unit) <= (limits.caption_limit or limits.limit)
        self.sheaf.add_media(
            PostMedia(
                target=self._target,
                url=media.url,
                path=media.path,
                mime=media.mime,
                caption=media.caption if fits else "",
            )
        )
        if not fits:
            self.add_note(media.caption)

    def add_note(self, text: str) -> None:
        """Words of ours, behind what was said."""
        self._end_flow()
        limits = self._limits
        splitter = Splitter(limits.limit, limits.unit, limits.dialect, lines=limits.lines)
        for part in splitter.feed(text) + splitter.close():
            self.sheaf.add(part.body)

    def advance(self) -> None:
        """Seal the sheets whose text is certain."""
        self._flow.advance()
        if self._taken < len(self._flow.parts):
            self._lay_out()

    def cut(self) -> bool:
        """End the message that is being written at the best place there is; whether there was one."""
        if self._flow.cut():
            self._lay_out()
            return True
        return False

    def rest(self) -> None:
        """Nothing came for a while: what was gathered into a message is one, and so is a block that is complete."""
        if self._blocks is not None:
            if self._flow.is_complete:
                self._flow.close()
            self._lay_out(gather=False)

    @property
    def is_gathering(self) -> bool:
        """Whether paragraphs are held to go out together with further ones."""
        return self._blocks is not None and (self._blocks.is_gathering or self._flow.is_complete)

    def complete(self, text: str | None) -> None:
        """The turn is complete; `text` is the answer where none was said."""
        self._take(self._hearing.block_end())
        if text and not self._has_text and not self._hearing.silent:
            self._hearing.reset_turn()
            self._take(self._hearing.feed(text))
        self._take(self._hearing.close())
        self._end_flow()

    def end(self) -> None:
        """Nothing is said any more."""
        self._end_flow()
        self.sheaf.drop_earlier()

    def break_off(self) -> None:
        """The turn was stopped: what people see is finished where it stands, and nothing new is said."""
        self.complete(None)
        self.end()
        self.sheaf.drop_unseen()

    def _end_flow(self) -> None:
        self._take(self._hearing.block_end())
        self._spoke = self._has_text
        self._flow.close()
        self._lay_out(gather=False)
        self.sheaf.drop_rest()
        self._begin_flow()

    def _lay_anew(self) -> None:
        """Text was taken back or replaced: what is sealed, and what was over, may be so no longer."""
        self.edition += 1
        self._taken = 0
        if self._blocks is not None:
            self._blocks.forget()
        self.sheaf.begin_again()
        self._flow.advance()
        self._lay_out()
        self.sheaf.drop_rest()
        if self._blocks is None:
            self.sheaf.await_more()

    def _lay_out(self, *, gather: bool = True) -> None:
        fresh = self._flow.parts[self._taken :]
        self._taken = len(self._flow.parts)
        self.grown.clear()
        if self._blocks is not None:
            self._blocks.take(fresh)
            self._lay_blocks(self._blocks, gather=gather)
            return
        for part in fresh:
            self.sheaf.seal(part.body, part.text + part.seam)

    def _lay_blocks(self, blocks: Blocks, *, gather: bool) -> None:
        while (found := blocks.next(self.sheaf.next_said, gather=gather)) is not None:
            self.sheaf.seal(*found)
