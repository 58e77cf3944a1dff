"""The updates of the Bot API. Only the fields and kinds that the channel uses are decoded; all others are ignored.

So a new kind of attachment or entity does not make a message unreadable.
"""

from __future__ import annotations

import msgspec


class UpdateUser(msgspec.Struct, frozen=True):
    """A person or a bot."""

    id: int
    first_name: str = ""
    last_name: str = ""
    username: str = ""
    is_bot: bool = False

    @property
    def name(self) -> str:
        """The name that users see."""
        return f"{self.first_name} {self.last_name}".strip() or self.username


class UpdateChat(msgspec.Struct, frozen=True):
    """A chat. `type` is private, group, supergroup or channel."""

    id: int
    type: str
    title: str = ""


class UpdateEntity(msgspec.Struct, frozen=True):
    """An entity: a range of a text that has a style or a meaning, such as a command. Positions are in UTF-16 units."""

    type: str
    offset: int
    length: int
    user: UpdateUser | None = None


class UpdateFile(msgspec.Struct, frozen=True):
    """An attached file of any kind: photo, document, audio, video or voice message."""

    file_id: str
    file_name: str = ""
    mime_type: str = ""
    file_size: int | None = None


class UpdateSticker(msgspec.Struct, frozen=True):
    """A sticker. `emoji` is the emoji that it represents; it is used as the text of the message."""

    emoji: str = ""


class UpdateMessage(msgspec.Struct, frozen=True):
    """A message.

    `message_thread_id` is the id of a topic only with `is_topic_message`; else it is the id of a reply thread.

    `is_automatic_forward`: a post of a channel, which Telegram repeats in the discussion group of that channel.
    """

    message_id: int
    chat: UpdateChat
    date: float = 0.0
    sender: UpdateUser | None = msgspec.field(name="from", default=None)
    sender_chat: UpdateChat | None = None
    message_thread_id: int | None = None
    is_topic_message: bool = False
    text: str = ""
    entities: tuple[UpdateEntity, ...] = ()
    caption: str = ""
    caption_entities: tuple[UpdateEntity, ...] = ()
    photo: tuple[UpdateFile, ...] = ()
    document: UpdateFile | None = None
    audio: UpdateFile | None = None
    video: UpdateFile | None = None
    voice: UpdateFile | None = None
    animation: UpdateFile | None = None
    video_note: UpdateFile | None = None
    sticker: UpdateSticker | None = None
    reply_to_message: UpdateMessage | None = None
    migrate_to_chat_id: int | None = None
    is_automatic_forward: bool = False
    edit_date: float = 0.0

    @property
    def topic(self) -> str | None:
        """The id of the topic in which the message is; None if it is in no topic."""
        return str(self.message_thread_id) if self.is_topic_message and self.message_thread_id is not None else None


class ButtonQuery(msgspec.Struct, frozen=True):
    """A press of a button. Without `data`, the button was not made by this channel."""

    id: str
    sender: UpdateUser = msgspec.field(name="from")
    message: UpdateMessage | None = None
    data: str | None = None


class Membership(msgspec.Struct, frozen=True):
    """The role of the bot in a chat. Telegram sends `is_member` and `can_send_messages` only for a restricted bot."""

    status: str
    is_member: bool = True
    can_send_messages: bool = True

    @property
    def may_write(self) -> bool:
        """Whether the bot may send messages in the chat."""
        return self.status not in ("left", "kicked") and self.is_member and self.can_send_messages


class MembershipChange(msgspec.Struct, frozen=True):
    """A change of the bot's role in a chat. In a private chat, `kicked` means that the person has blocked the bot."""

    chat: UpdateChat
    old_chat_member: Membership
    new_chat_member: Membership
    date: float = 0.0


class StoppedDraft(msgspec.Struct, frozen=True):
    """A press of the stop button of a draft."""

    chat: UpdateChat
    draft_id: int
    message_thread_id: int | None = None


class BotUpdate(msgspec.Struct, frozen=True):
    """An update. One of the fields is set; all are None if the update is of a kind that the channel does not use."""

    update_id: int
    message: UpdateMessage | None = None
    edited_message: UpdateMessage | None = None
    callback_query: ButtonQuery | None = None
    my_chat_member: MembershipChange | None = None
    stopped_message_generation: StoppedDraft | None = None


KINDS = tuple(field for field in BotUpdate.__struct_fields__ if field != "update_id")
"""The kinds of updates that the channel asks Telegram to send."""


class _UpdateId(msgspec.Struct, frozen=True):
    update_id: int


def decode_update(encoded: bytes | msgspec.Raw) -> BotUpdate:
    """Decode an update. Raises `msgspec.MsgspecError` or `RecursionError` if it is malformed."""
    return msgspec.json.decode(encoded, type=BotUpdate)


def update_id_of(encoded: bytes | msgspec.Raw) -> int | None:
    """The id of an update; None if it has no readable id. Works also if the other content is malformed."""
    try:
        return msgspec.json.decode(encoded, type=_UpdateId).update_id
    except (msgspec.MsgspecError, RecursionError):
        return None
