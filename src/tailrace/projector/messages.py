"""The sheets of a turn in their order: which message carries what, also those that a former process left.

It owns the order. A sheet is used again where its message can become what comes next; one that cannot is left behind
and taken away, and where a new message would come too late, those behind it come again. What is said is the document's,
and when a sheet is sent is the projector's.
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
    """The sheets of one turn. `earlier` are those that a former process left of it, which the first ones go on with."""

    __slots__ = ("_earlier", "_laid", "_limits", "_mine", "_over", "sheets")

    def __init__(self, limits: Capabilities, earlier: Iterable[TurnMessage]) -> None:
        self.sheets: list[TurnMessage] = []
        self._limits = limits
        self._earlier = list(earlier)
        self._over = 0  # so many sheets from the first on are over
        self.begin_text()

    def begin_text(self) -> None:
        """Text begins, behind all that is there."""
        self._mine: list[TurnMessage] = []  # the sheets of that text
        self._laid = 0  # how many of them are sealed

    @property
    def has_earlier(self) -> bool:
        """Whether a former process left sheets that nothing was said for until now."""
        return bool(self._earlier)

    def is_begun(self, written: int) -> bool:
        """Whether nothing is left of a former process but a message of text that says no more than so much."""
        said = self._earlier[0].said if len(self._earlier) == 1 else None
        return said is not None and written >= said.size

    @property
    def next_said(self) -> BodyHash | None:
        """What the next message of the text says already, where it is there."""
        if self._laid < len(self._mine):
            return self._mine[self._laid].said
        return self._earlier[0].said if self._earlier else None

    @property
    def open_sheet(self) -> TurnMessage | None:
        """The message that is being written, where there is one."""
        sheet = self._mine[self._laid] if self._laid < len(self._mine) else None
        return None if sheet is None or sheet.is_sealed else sheet

    def opened_sheet(self) -> TurnMessage:
        """The message that is being written, begun if need be."""
        sheet = self._sheet_for(None)
        if sheet.is_sealed:
            sheet.unseal()
            self._over = 0
        return sheet

    def unfinished(self) -> list[TurnMessage]:
        """The sheets from the first on that is not over."""
        while self._over < len(self.sheets) and self.sheets[self._over].is_over:
            self._over += 1
        return self.sheets[self._over :]

    def seal(self, body: Body, source: str) -> None:
        """The next sheet of the text says this in the end."""
        sheet = self._sheet_for(body)
        if sheet.is_sealed:
            self._over = 0
        sheet.seal(body)
        sheet.source = source
        self._laid += 1

    def add(self, body: Body) -> None:
        """A message that is no part of the text says this."""
        self._new_sheet(body).seal(body)

    def add_media(self, media: PostMedia) -> None:
        """A medium is shown."""
        self._new_sheet(None, is_media=True).media = media

    def begin_again(self) -> None:
        """The text is laid down anew: what is sealed, and what was over, may be so no longer."""
        self._laid = self._over = 0

    def drop_rest(self) -> None:
        """The text has no more messages than are sealed."""
        for sheet in self._mine[self._laid :]:
            sheet.drop()

    def await_more(self) -> None:
        """The first message that was dropped waits for other text."""
        waiting = self._mine[self._laid] if self._laid < len(self._mine) else None
        if waiting is not None and self._can_say(waiting, None):
            waiting.unseal()

    def drop_text(self) -> None:
        """Nothing of what the agent said shall be there."""
        self._over = 0
        for sheet in self.sheets:
            if sheet.is_text:
                sheet.drop()

    def drop_unseen(self) -> None:
        """What could be said only by a new message, and is not on its way, is not said."""
        for sheet in self.unfinished():
            is_there = sheet.message_id is not None and self._can_say(sheet, sheet.body)
            if sheet.asked is None and not is_there:
                sheet.drop()

    def drop_earlier(self) -> None:
        """What a former process said beyond what was said until now shall not be there."""
        for sheet in self._earlier:
            sheet.drop()
        self.sheets += self._earlier
        self._earlier.clear()

    def send_behind(self, sheet: TurnMessage) -> None:
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
        self.drop_earlier()

    def _sheet_for(self, body: Body | None) -> TurnMessage:
        """The next sheet of the text that can say this; those that cannot are left behind."""
        while True:
            sheet = self._mine[self._laid] if self._laid < len(self._mine) else self._new_text_sheet(body)
            if self._can_say(sheet, body):
                return sheet
            self._mine.remove(sheet)
            sheet.drop()

    def _can_say(self, sheet: TurnMessage, body: Body | None) -> bool:
        return sheet.can_say(body, edits=self._limits.edits is not None)

    def _new_text_sheet(self, body: Body | None) -> TurnMessage:
        sheet = self._new_sheet(body)
        sheet.is_text = True
        self._mine.append(sheet)
        return sheet

    def _new_sheet(self, body: Body | None, *, is_media: bool = False) -> TurnMessage:
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
        self.sheets.append(found or TurnMessage())
        return self.sheets[-1]
