"""How an answer can look, as a table; and what people may wish otherwise.

Each presentation is one row: how the message that is still being written is shown, whether the answer goes out while it
comes or when it is whole, where it is cut, and whether a message beside it shows the work. The projector is one machine
that reads its row and knows no presentation by name.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from tailrace.capabilities import Capabilities, DraftRules, StreamRules
from tailrace.errors import UsageError
from tailrace.operations import Target

Presentation: TypeAlias = Literal["tokens", "live", "native", "processing", "blocks", "final"]
PreviewKind: TypeAlias = Literal["edits", "draft", "stream", "hidden"]


class PresentationRules(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table.

    `preview`: how people see a message before it is finished. `waits_for_end`: nothing of the answer is sent before it
    is whole. `ends_at_paragraphs`: a message ends where a paragraph ends. `processing_message`: a second message shows
    the work while it lasts. `shows_every_delta`: each delta is shown at once, however short.
    """

    preview: PreviewKind
    waits_for_end: bool = False
    ends_at_paragraphs: bool = False
    processing_message: bool = False
    shows_every_delta: bool = False


PRESENTATIONS: dict[str, PresentationRules] = {
    "tokens": PresentationRules(preview="stream", shows_every_delta=True),
    "live": PresentationRules(preview="edits"),
    "drafts": PresentationRules(preview="draft"),
    "streams": PresentationRules(preview="stream"),
    "processing": PresentationRules(preview="hidden", waits_for_end=True, processing_message=True),
    "blocks": PresentationRules(preview="hidden", ends_at_paragraphs=True),
    "final": PresentationRules(preview="hidden", waits_for_end=True),
}
"""The presentations; `native` is `drafts` or `streams`, as the platform has it."""


class ProjectorSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What people may wish otherwise; every setting has a default that works.

    `presentation`: None for what the channel's table says. A message is begun when `first_characters` are there to
    read, or after `first_s`. `edit_every_s` makes live edits rarer than the channel asks for, never more frequent. The
    processing message is brought up to date every `processing_every_s`. Blocks are gathered until they have
    `block_characters`, or nothing came for `block_idle_s`; `human_delay_s` is waited between two of them. Tools are
    shown while they run (`tools`); reasoning and usage only where wished. An answer that is nothing but one of the
    `silent` words is not given.
    """

    presentation: Presentation | None = None
    first_characters: int = 30
    first_s: float = 1.5
    edit_every_s: float = 0.0
    processing_every_s: float = 5.0
    block_characters: int = 200
    block_idle_s: float = 1.0
    human_delay_s: float = 0.0
    tools: bool = True
    reasoning: bool = False
    usage: bool = False
    silent: tuple[str, ...] = ("NO_REPLY",)

    def __post_init__(self) -> None:
        for name in ("first_s", "edit_every_s", "processing_every_s", "block_idle_s", "human_delay_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UsageError(f"{name} is {getattr(self, name)}; it is a number of seconds, 0 or more")
        for name in ("first_characters", "block_characters"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} is {getattr(self, name)}; it is a number of characters, 0 or more")
        if self.processing_every_s == 0:
            raise UsageError("processing_every_s is 0; a message cannot be brought up to date all the time")
        if not all(word.strip() for word in self.silent):
            raise UsageError("silent holds an empty word: every answer begins with it, and none could be shown")


def rules_for(settings: ProjectorSettings, capabilities: Capabilities, target: Target) -> PresentationRules:
    """The row for one place: as wished, or the nearest to it that the place can do."""
    wished: str = settings.presentation or capabilities.presentation
    if wished == "native":
        wished = _native(capabilities, target)
    if wished == "tokens" and _native(capabilities, target) != "streams":
        wished = "live"
    if wished in ("live", "processing") and capabilities.edits is None:
        wished = "final"
    return PRESENTATIONS[wished]


def _native(capabilities: Capabilities, target: Target) -> str:
    match capabilities.native:
        case DraftRules(in_groups=in_groups) if in_groups or not target.group:
            return "drafts"
        case StreamRules(in_threads_only=only) if target.thread is not None or not only:
            return "streams"
        case _:
            return "live"
