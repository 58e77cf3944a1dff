"""The drafts of a simulated platform: text that is being written and is not a message yet.

A draft is shown until its lifetime is over, until the same draft gets another text, or until the bot sends a message in
the same chat and thread. `tailrace.testing.platform` decides which drafts are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.testing.wire import ShownDraft

if TYPE_CHECKING:
    from tailrace.operations import Draft


class Drafts:
    """All drafts of a platform. With `keeps_past`, drafts that ended are kept too, to look at them later."""

    def __init__(self, lifetime_s: float, *, keeps_past: bool) -> None:
        self._lifetime_s = lifetime_s
        self._keeps_past = keeps_past
        self._shown: dict[tuple[str, str | None], dict[int, ShownDraft]] = {}
        self._past: list[ShownDraft] = []

    def show(self, draft: Draft, now: float) -> None:
        """Show the draft. It replaces the earlier text of the same draft."""
        target = draft.target
        there = self._shown.setdefault((target.chat, target.thread), {})
        if (before := there.pop(draft.draft_id, None)) is not None:
            self._end(before, now)
        there[draft.draft_id] = ShownDraft(
            chat=target.chat,
            thread=target.thread,
            draft_id=draft.draft_id,
            body=draft.body,
            at=now,
            until=now + self._lifetime_s,
        )

    def remove(self, chat: str, thread: str | None, now: float) -> None:
        """Remove all drafts of a chat and thread, because the bot has sent a message there."""
        for draft in self._shown.pop((chat, thread), {}).values():
            self._end(draft, now)

    def shown(self, chat: str, at: float) -> list[ShownDraft]:
        """The drafts that people saw in the chat at that time, in the order in which they were shown."""
        known = self._past + [draft for drafts in self._shown.values() for draft in drafts.values()]
        shown = [draft for draft in known if draft.chat == chat and draft.at <= at < draft.until]
        return sorted(shown, key=lambda draft: draft.at)

    def _end(self, draft: ShownDraft, now: float) -> None:
        if self._keeps_past:
            self._past.append(replace(draft, until=min(draft.until, now)))
