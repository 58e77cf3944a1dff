"""What a turn says, as sheets in their order: text cut into messages, media, and words of ours such as errors.

It owns which text stands (after what was only thought, kept silent or taken back), where one message ends and the next
begins, and which sheet carries what. When a sheet is sent, and how it looks before it is finished, is the projector's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.deliveries import Snapshot
from tailrace.markdown import units
from tailrace.markdown.splitter import Splitter
from tailrace.operations import PostMedia
from tailrace.projector.blocks import Blocks
from tailrace.projector.flow import Flow
from tailrace.projector.hearing import Hearing
from tailrace.projector.sheets import Sheet

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from tailrace.capabilities import Capabilities
    from tailrace.events import Media
    from tailrace.operations import Body, Target
    from tailrace.projector.hearing import Heard
    from tailrace.projector.sheets import Imprint


class Document:
    """The sheets of one turn. `earlier` are those that a former process left of it, which the first ones go on with."""

    __slots__ = (
        "_blocks",
        "_earlier",
        "_flow",
        "_hearing",
        "_is_followed",
        "_laid",
        "_limits",
        "_media",
        "_mine",
        "_over",
        "_spoke",
        "_taken",
        "_target",
        "edition",
        "grown",
        "reasoning",
        "sheets",
    )

    def __init__(
        self,
        target: Target,
        limits: Capabilities,
        *,
        blocks: Blocks | None,
        is_followed: bool,
        silent: tuple[str, ...],
        earlier: Iterable[Sheet] = (),
    ) -> None:
        self.sheets: list[Sheet] = []
        self.grown: list[str] = []  # the text that came since it was last taken, as it was laid down
        self.edition = 0  # another one whenever text that was laid down is taken back or replaced
        self.reasoning: list[str] = []  # what turned out to be thought only, since it was last taken
        self._target = target
        self._limits = limits
        self._blocks = blocks
        self._is_followed = is_followed
        self._hearing = Hearing(silent)
        self._earlier = list(earlier)
        self._media: set[str] | None = None
        self._spoke = False  # text stands in a flow that ended
        self._over = 0  # so many sheets from the first on are over
        self._begin_flow()

    def _begin_flow(self) -> None:
        self._flow = Flow(self._splitter)
        self._mine: list[Sheet] = []  # the sheets of this flow
        self._laid = 0  # how many of them carry what was cut
        self._taken = 0  # how many parts were cut
        self.grown.clear()
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
    def open_sheet(self) -> Sheet | None:
        """The message that is being written, where there is one."""
        sheet = self._mine[self._laid] if self._laid < len(self._mine) else None
        return None if sheet is None or sheet.is_sealed else sheet

    @property
    def is_behind(self) -> bool:
        """Whether a former process said more than was said until now: what that shall be is not known yet."""
        if not self._earlier:
            return False
        said = self._earlier[0].said
        return self._blocks is not None or len(self._earlier) > 1 or said is None or len(self.tail) < said.size

    def unfinished(self) -> list[Sheet]:
        """The sheets from the first on that is not over."""
        while self._over < len(self.sheets) and self.sheets[self._over].is_over:
            self._over += 1
        return self.sheets[self._over :]

    def opened_sheet(self) -> Sheet:
        """The message that is being written, begun if need be."""
        sheet = self._sheet_for(None)
        if sheet.is_sealed:
            sheet.unseal()
            self._over = 0
        return sheet

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
            self._drop_text()
        if not self._has_text:
            self._hearing.reset_turn()
        self._lay_anew()

    @property
    def _has_text(self) -> bool:
        return self._spoke or self._flow.said_anything

    def unsaid(self, *, at_end: bool) -> Snapshot:
        """What no message says yet and none on its way will, and the message that shows the first of it."""
        texts: list[str] = []
        first: Sheet | None = None
        for sheet in self.unfinished():
            if not sheet.is_text or not sheet.is_sealed or sheet.dropped or sheet.is_over or sheet.awaits_last_word:
                continue
            first = first or sheet
            texts.append(sheet.unsaid_of(sheet.source))
        if self._blocks is not None:
            texts.append(self._blocks.gathered)
        if at_end:
            texts.append(self._flow.text)
        else:
            being_written = self.open_sheet
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
        self._new_sheet(None, is_media=True).media = PostMedia(
            target=self._target,
            url=media.url,
            path=media.path,
            mime=media.mime,
            caption=media.caption if fits else "",
        )
        if not fits:
            self.add_note(media.caption)

    def add_note(self, text: str) -> None:
        """Words of ours, behind what was said."""
        self._end_flow()
        limits = self._limits
        splitter = Splitter(limits.limit, limits.unit, limits.dialect, lines=limits.lines)
        for part in splitter.feed(text) + splitter.close():
            self._new_sheet(part.body).seal(part.body)

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
        """Nothing is said any more: what a former process said beyond it shall not be there."""
        self._end_flow()
        for sheet in self._earlier:
            sheet.drop()
        self.sheets += self._earlier
        self._earlier.clear()

    def break_off(self) -> None:
        """The turn was stopped: what people see is finished where it stands, and nothing new is said."""
        self.complete(None)
        self.end()
        self.drop_unseen()

    def drop_unseen(self) -> None:
        """What could be said only by a new message, and is not on its way, is not said."""
        for sheet in self.unfinished():
            is_there = sheet.message_id is not None and self._can_say(sheet, sheet.body)
            if sheet.asked is None and not is_there:
                sheet.drop()

    def send_behind(self, sheet: Sheet) -> None:
        """It comes as a new message: those that stand behind it and are there already come again behind it."""
        if not self._limits.deletes:
            return
        for nth in range(len(self.sheets) - 1, self.sheets.index(sheet), -1):
            later = self.sheets[nth]
            if later.message_id is None or later.dropped or later.asked is not None:
                continue
            again = later.renewed()
            self.sheets.insert(nth + 1, again)
            self._mine = [again if mine is later else mine for mine in self._mine]

    def _end_flow(self) -> None:
        self._take(self._hearing.block_end())
        self._spoke = self._has_text
        self._flow.close()
        self._lay_out(gather=False)
        for sheet in self._mine[self._laid :]:
            sheet.drop()
        self._begin_flow()

    def _drop_text(self) -> None:
        self._over = 0
        for sheet in self.sheets:
            if sheet.is_text:
                sheet.drop()

    def _lay_anew(self) -> None:
        """Text was taken back or replaced: what is sealed, and what was over, may be so no longer."""
        self.edition += 1
        self._laid = self._taken = self._over = 0
        if self._blocks is not None:
            self._blocks.forget()
        self._flow.advance()
        self._lay_out()
        for sheet in self._mine[self._laid :]:
            sheet.drop()
        waiting = self._mine[self._laid : self._laid + 1]
        if self._blocks is None and waiting and self._can_say(waiting[0], None):
            waiting[0].unseal()

    def _lay_out(self, *, gather: bool = True) -> None:
        fresh = self._flow.parts[self._taken :]
        self._taken = len(self._flow.parts)
        self.grown.clear()
        if self._blocks is not None:
            self._blocks.take(fresh)
            self._lay_blocks(self._blocks, gather=gather)
            return
        for part in fresh:
            self._seal(part.body, part.text + part.seam)

    def _lay_blocks(self, blocks: Blocks, *, gather: bool) -> None:
        while (found := blocks.next(self._known_body, gather=gather)) is not None:
            self._seal(*found)

    @property
    def _known_body(self) -> Imprint | None:
        """What the next message says already, where it is there."""
        if self._laid < len(self._mine):
            return self._mine[self._laid].said
        return self._earlier[0].said if self._earlier else None

    def _seal(self, body: Body, source: str) -> None:
        """The next sheet of the flow says this in the end."""
        sheet = self._sheet_for(body)
        if sheet.is_sealed:
            self._over = 0
        sheet.seal(body)
        sheet.source = source
        self._laid += 1

    def _sheet_for(self, body: Body | None) -> Sheet:
        """The next sheet of the flow that can say this; those that cannot are left behind."""
        while True:
            sheet = self._mine[self._laid] if self._laid < len(self._mine) else self._new_text_sheet(body)
            if self._can_say(sheet, body):
                return sheet
            self._mine.remove(sheet)
            sheet.drop()

    def _can_say(self, sheet: Sheet, body: Body | None) -> bool:
        return sheet.can_say(body, edits=self._limits.edits is not None)

    def _new_text_sheet(self, body: Body | None) -> Sheet:
        sheet = self._new_sheet(body)
        sheet.is_text = True
        self._mine.append(sheet)
        return sheet

    def _new_sheet(self, body: Body | None, *, is_media: bool = False) -> Sheet:
        """The sheet behind all others: one that a former process left, where it can become this.

        A medium waits until it is named again: text may stand before it that is taken back in the end. So may text that
        cannot be said by a sheet that is lost, and then what is lost is found again.
        """
        while self._earlier and (is_media or self._earlier[0].media is None):
            sheet = self._earlier.pop(0)
            self.sheets.append(sheet)
            if (sheet.media is not None) is is_media and self._can_say(sheet, body):
                return sheet
            sheet.drop()
        lost = (sheet for sheet in self.sheets if sheet.dropped and sheet.lost and self._can_say(sheet, body))
        found = next(lost, None) if body is not None else None
        if found is not None:
            self.sheets.remove(found)
            self._over = 0
        self.sheets.append(found or Sheet())
        return self.sheets[-1]
