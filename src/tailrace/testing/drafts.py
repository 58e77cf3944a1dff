"""The drafts that a simulated platform shows: text that is being written and is no message yet.

A draft is shown until its lifetime ends, until a draft with the same id replaces it, or until a message of the bot
arrives in the same thread. `tailrace.testing.platform` decides which drafts are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.testing.wire import ShownDraft

if TYPE_CHECKING:
    from tailrace.operations import Draft


class Drafts:
    """All drafts of a platform. With `keeps_past`, drafts that have ended can still be asked for."""

    def __init__(self, lifetime_s: float, *, keeps_past: bool) -> None:
        self._lifetime_s = lifetime_s
        self._keeps_past = keeps_past
        self._shown: dict[tuple[str, str | None], dict[int, ShownDraft]] = {}
        self._past: list[ShownDraft] = []

    def show(self, draft: Draft, now: float) -> None:
        """Show a draft, in place of the one with the same id."""
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

    def give_way(self, chat: str, thread: str | None, now: float) -> None:
        """End all drafts of the thread, because a message of the bot arrived there."""
        for draft in self._shown.pop((chat, thread), {}).values():
            self._end(draft, now)

    def seen(self, chat: str, at: float) -> list[ShownDraft]:
        """The drafts that are or were shown in the chat at that time, in order."""
        shown = [draft for drafts in self._shown.values() for draft in drafts.values()]
        seen = [draft for draft in self._past + shown if draft.chat == chat and draft.at <= at < draft.until]
        return sorted(seen, key=lambda draft: draft.at)

    def _end(self, draft: ShownDraft, now: float) -> None:
        if self._keeps_past:
            self._past.append(replace(draft, until=min(draft.until, now)))
