"""The presentations (the ways in which a turn is shown in a chat) as a table, and the settings that people can change.

A row says how the message that is being written is shown, whether the answer is sent while it is written or when it is
complete, where messages end, and whether a processing message shows the work. The projector reads its row and knows no
presentation by name.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from tailrace.capabilities import Capabilities, DraftRules, StreamRules
from tailrace.errors import UsageError
from tailrace.operations import Button, Target

Presentation: TypeAlias = Literal["tokens", "live", "native", "processing", "parts", "blocks", "final"]


class PresentationRules(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table: the rules of one presentation.

    `preview`: how people see the message that is being written. `waits_for_end`: the answer is sent only when it is
    complete. `ends_at_paragraphs`: a message ends where a paragraph ends. `ends_at_blocks`: a message ends where a
    block of text ends, and is sent when a tool has finished or the next block begins. `processing_message`: a second
    message shows the work while the agent works. `shows_every_delta`: each delta is shown at once, even a short one.
    """

    preview: Literal["edits", "draft", "stream", "hidden"]
    waits_for_end: bool = False
    ends_at_paragraphs: bool = False
    ends_at_blocks: bool = False
    processing_message: bool = False
    shows_every_delta: bool = False


PRESENTATIONS: dict[str, PresentationRules] = {
    "tokens": PresentationRules(preview="stream", shows_every_delta=True),
    "live": PresentationRules(preview="edits"),
    "drafts": PresentationRules(preview="draft"),
    "streams": PresentationRules(preview="stream"),
    "processing": PresentationRules(preview="hidden", waits_for_end=True, processing_message=True),
    "parts": PresentationRules(preview="hidden", ends_at_blocks=True),
    "blocks": PresentationRules(preview="hidden", ends_at_paragraphs=True),
    "final": PresentationRules(preview="hidden", waits_for_end=True),
}
"""The presentations. `native` is `drafts` or `streams`, whichever the platform has."""


class ProjectorSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one turn; each has a default that works.

    `presentation`: None for that of the channel. A message begins when there are `first_characters`, or after `first_s`
    with less text. `edit_every_s` makes the interval between live edits longer than the channel needs; a smaller value
    has no effect. The processing message is updated every `processing_every_s`. Paragraphs are collected for one
    message until they have `block_characters`, or no text came for `block_idle_s`; `human_delay_s` is the pause between
    two messages of paragraphs. `tools` shows tool calls while they run; `reasoning` shows the reasoning, `usage` the
    tokens. An answer that is one of the `silent` words is not sent. An edit with fewer than `edit_characters` of new
    text waits a little longer for more. The `buttons` are below a message as long as it is being written.
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
    edit_characters: int = 0
    buttons: tuple[Button, ...] = ()

    def __post_init__(self) -> None:
        for name in ("first_s", "edit_every_s", "processing_every_s", "block_idle_s", "human_delay_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UsageError(f"{name} is {getattr(self, name)}; it must be a number of seconds, 0 or more")
        for name in ("first_characters", "block_characters", "edit_characters"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be a number of characters, 0 or more")
        if self.processing_every_s == 0:
            raise UsageError("processing_every_s is 0; the processing message needs some time between two updates")
        if not all(word.strip() for word in self.silent):
            raise UsageError("silent has an empty word; every answer begins with it, so none could be shown")


def rules_for(settings: ProjectorSettings, capabilities: Capabilities, target: Target) -> PresentationRules:
    """The rules of the presentation with which this chat shows a turn.

    It is the presentation in the settings, otherwise that of the channel. If the channel cannot show it in this chat,
    the nearest one that it can show is used: without edits, for example, `live` becomes `final`.
    """
    name: str = settings.presentation or capabilities.presentation
    if name == "native":
        name = _native(capabilities, target)
    if name == "tokens" and _native(capabilities, target) != "streams":
        name = "live"
    if name in ("live", "processing") and capabilities.edits is None:
        name = "final"
    return PRESENTATIONS[name]


def _native(capabilities: Capabilities, target: Target) -> str:
    match capabilities.native:
        case DraftRules(in_groups=in_groups) if in_groups or not target.group:
            return "drafts"
        case StreamRules(in_threads_only=only) if target.thread is not None or not only:
            return "streams"
        case _:
            return "live"
