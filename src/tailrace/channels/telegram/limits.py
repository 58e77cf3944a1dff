"""The limits of Telegram that the channel itself checks, and the capabilities of its chats. Sizes are in bytes.

All numbers come from the documentation of the Bot API. The limits of texts and the rates are in
`tailrace.capabilities`.
"""

from __future__ import annotations

from msgspec.structs import replace

from tailrace.capabilities import TELEGRAM, TELEGRAM_RICH, Capabilities

MAX_CALLBACK = 64  # callback_data
MAX_ANSWER = 200  # characters of the text that answers a press
MAX_PHOTO = 10_000_000  # a photo that is uploaded
MAX_UPLOAD = 50_000_000
MAX_DOWNLOAD = 20_000_000
PHOTOS = frozenset({"image/jpeg", "image/png", "image/webp"})
"""The MIME types that are sent as a photo. Other pictures are sent as files."""


class ChatLimits:
    """The capabilities of private chats, groups and channels."""

    def __init__(self, *, rich: bool) -> None:
        self.account = TELEGRAM_RICH if rich else TELEGRAM
        self.private = replace(self.account, per_group=None)
        edits = self.account.edits
        assert edits is not None, "Telegram has edits"
        every_s = edits.every_s_in_groups or edits.every_s
        self.group = replace(self.account, native=None, edits=replace(edits, every_s=every_s))
        self.broadcast = replace(self.group, typing_s=None)

    def of(self, chat: str, *, is_broadcast: bool) -> Capabilities:
        """The capabilities of a chat. The id of a person is positive; groups and channels have negative ones."""
        if chat.isdigit():
            return self.private
        return self.broadcast if is_broadcast else self.group
