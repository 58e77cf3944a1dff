"""The channel Telegram: performs operations by calls of the Bot API, and receives messages and presses of buttons.

`calls` makes the calls, `receiver` receives the updates, `errors` says what a refusal means. This module never repeats
a call and never waits for a rate limit, because the sender of the conversation does both.
"""

from __future__ import annotations

import asyncio
import mimetypes
import os
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from tailrace.channels.limit_scope import LimitScope
from tailrace.channels.sent_file import open_to_send, shown_name
from tailrace.channels.telegram import calls, checks
from tailrace.channels.telegram.client import FileUpload, MethodCall, TelegramClient
from tailrace.channels.telegram.errors import ChatMoved, NotModified, PictureRefused
from tailrace.channels.telegram.inbound import BotAccount
from tailrace.channels.telegram.limits import MAX_DOWNLOAD, MAX_PHOTO, MAX_UPLOAD, PHOTOS, ChatLimits
from tailrace.channels.telegram.receiver import UpdateReceiver
from tailrace.channels.telegram.settings import BotSettings
from tailrace.errors import NotSent, SendRefused, UsageError
from tailrace.operations import Body, Edit, Post, Receipt, Target

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tailrace.capabilities import Capabilities
    from tailrace.inbound import Attachment, ButtonPress, InboundMessage
    from tailrace.operations import Delete, Draft, PostMedia, Typing
    from tailrace.ports import Finding, Inbox, MenuCommand

T = TypeVar("T")

_SEEN = "👀"


class _SentChat(msgspec.Struct, frozen=True):
    type: str = ""


class _SentMessage(msgspec.Struct, frozen=True):
    message_id: int
    chat: _SentChat = _SentChat()


class _File(msgspec.Struct, frozen=True):
    file_path: str = ""
    file_size: int = 0


class TelegramChannel:
    """A channel that sends and receives as one Telegram bot. The keyword arguments are the fields of `BotSettings`.

    Without a token, the channel takes `TELEGRAM_BOT_TOKEN` and `TELEGRAM_API_BASE` from the environment.
    """

    Settings = BotSettings

    def __init__(self, *, name: str = "telegram", **settings: Any) -> None:
        self.name = name
        self.account_name = ""
        self._settings = _checked(settings)
        self._limits = ChatLimits(rich=self._settings.rich)
        self.capabilities = self._limits.account
        self._api = TelegramClient(self._settings)
        self._receiver = UpdateReceiver(
            self._api, self._settings, self._show_seen if self._settings.reactions else None
        )
        self._broadcasts: set[str] = set()
        self._not_photos: set[str] = set()
        self._limit_scope = LimitScope()

    def __repr__(self) -> str:
        return f"TelegramChannel(name={self.name!r}, bot={self._settings.bot_id})"

    async def start(self, inbox: Inbox) -> None:
        """Check the token, then begin to receive. Raises `ChannelFault`, or `UsageError` for a wrong setting."""
        await self._connect(inbox)

    async def start_to_send(self) -> None:
        """Check the token, but receive nothing.

        Telegram allows only one receiver for a bot, so the process that receives would lose its connection.
        """
        await self._connect(None)

    async def _connect(self, inbox: Inbox | None) -> None:
        self._api.open()
        self._receiver.reopen()
        try:
            profile = await checks.get_me(self._api)
            self.account_name = f"@{profile.username}"
            if inbox is not None:
                account = BotAccount(channel=self.name, id=str(profile.id), username=profile.username)
                await self._receiver.start(inbox, account)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop receiving at once, and end all calls."""
        await self._receiver.stop()
        await self._api.close()

    async def wait_closed(self) -> None:
        """Wait for `stop`. Raises if another program gets the updates, or if the inbox failed for good."""
        await self._receiver.wait_closed()

    @property
    def alive_at(self) -> float:
        """When Telegram last answered a poll or, with a webhook, the question whether it is still set."""
        return self._receiver.alive_at

    @property
    def proof_every_s(self) -> float:
        """The longest time between two such answers."""
        return self._receiver.proof_every_s

    def capabilities_of(self, target: Target) -> Capabilities:
        """What Telegram can do in this chat. It differs between private chats, groups and channels."""
        chat = self._chat(target.chat)
        return self._limits.of(chat, is_broadcast=chat in self._broadcasts)

    # Operations

    async def post(self, post: Post, *, key: str) -> Receipt:  # noqa: ARG002 -- Telegram knows no keys
        """Send a message."""
        call = calls.post_call(post, self._chat(post.target.chat), rich=self._settings.rich)
        return self._receipt(post.target, await self._call(post.target, call, _SentMessage))

    async def edit(self, edit: Edit) -> Receipt:
        """Replace the text and the buttons of a message."""
        call = calls.edit_call(edit, self._chat(edit.target.chat), rich=self._settings.rich)
        with suppress(NotModified):
            await self._call(edit.target, call, msgspec.Raw)
        return Receipt(message_id=edit.message_id)

    async def delete(self, delete: Delete) -> Receipt:
        """Delete a message. Does nothing if the message does not exist any more."""
        message_id = calls.number(delete.message_id, "message_id")
        fields = calls.chat_fields(self._chat(delete.target.chat)) | {"message_id": message_id}
        try:
            await self._call(delete.target, MethodCall("deleteMessage", fields), msgspec.Raw)
        except SendRefused as refusal:
            if not refusal.gone:
                raise
        return Receipt(message_id=delete.message_id)

    async def typing(self, typing: Typing) -> None:
        """Show for some seconds that the bot is typing."""
        target = typing.target
        fields = calls.chat_fields(self._chat(target.chat), target.thread) | {"action": "typing"}
        await self._call(target, MethodCall("sendChatAction", fields), msgspec.Raw)

    async def draft(self, draft: Draft) -> None:
        """Show a draft with a stop button. A press of that button arrives as the command `stop`."""
        call = calls.draft_call(draft, self._chat(draft.target.chat), rich=self._settings.rich)
        await self._call(draft.target, call, msgspec.Raw)

    async def post_media(self, media: PostMedia, *, key: str) -> Receipt:
        """Send a photo or a file.

        If Telegram refuses a picture as a photo, this raises `NotSent`; the next call with the same key sends it as a
        file.
        """
        with ExitStack() as stack:
            file = None if media.path is None else stack.enter_context(open_to_send(media.path))
            mime = media.mime or mimetypes.guess_type(media.path or urlsplit(media.url or "").path)[0] or ""
            size = 0 if file is None else os.fstat(file.fileno()).st_size
            if size > MAX_UPLOAD:
                raise SendRefused(f"the file has {size} bytes, and Telegram takes at most {MAX_UPLOAD}")
            is_photo = mime in PHOTOS and size <= MAX_PHOTO and key not in self._not_photos
            call = calls.media_call(media, self._chat(media.target.chat), as_photo=is_photo)
            upload = (
                None
                if file is None
                else FileUpload("photo" if is_photo else "document", file, shown_name(media.path or ""))
            )
            try:
                sent = await self._call(media.target, call, _SentMessage, upload=upload)
            except PictureRefused:
                if not is_photo:
                    raise
                self._not_photos.add(key)
                raise NotSent("the picture is sent as a file, because it cannot be a photo", retry_after=0.0) from None
        return self._receipt(media.target, sent, "sent as a file" if mime in PHOTOS and not is_photo else "")

    async def react(self, target: Target, message_id: str, emoji: str) -> None:
        """Put a reaction on a message; the emoji "" removes it. Telegram allows only some emoji."""
        call = calls.reaction_call(self._chat(target.chat), message_id, emoji)
        await self._call(target, call, msgspec.Raw)

    async def acknowledge(self, press: ButtonPress, text: str) -> None:
        """Show a short text to the person who pressed a button.

        Until then, Telegram shows a progress sign on the button.
        """
        await self._call(press.target, calls.answer_call(press.event_id, text), msgspec.Raw)

    async def show_commands(self, commands: Sequence[MenuCommand]) -> None:
        """Show these commands in the menu of every chat; none removes the menu."""
        await self._api.call(calls.commands_call(commands), msgspec.Raw)

    async def fetch(self, attachment: Attachment, path: Path, *, max_bytes: int) -> None:
        """Download an attachment to a new file. Raises `SendRefused` if the attachment is larger than `max_bytes`."""
        if (attachment.size or 0) > max_bytes:
            raise SendRefused(f"the file has {attachment.size} bytes, and at most {max_bytes} are allowed")
        if (attachment.size or 0) > MAX_DOWNLOAD:
            raise SendRefused(f"Telegram gives bots only files of at most {MAX_DOWNLOAD} bytes")
        file = await self._api.call(MethodCall("getFile", {"file_id": attachment.id}), _File)
        if not file.file_path or file.file_size > max_bytes:
            raise SendRefused(f"the file has more than {max_bytes} bytes, or Telegram does not give it out")
        await self._api.download(file.file_path, path, max_bytes=max_bytes)

    async def check(self) -> Sequence[Finding]:
        """Check the token and the settings with calls that send nothing. Returns what was found."""
        client = TelegramClient(self._settings)  # of its own, because there may be no `stop` after it
        try:
            return await checks.check(client, self._settings)
        finally:
            await client.close()

    # Processing messages

    async def create_processing_message(self, source_id: str, text: str, metadata: Any) -> str:  # noqa: ARG002 -- unused
        """Send a message and return its id. Works before `start`.

        `source_id` is `{chat_id}` or `{chat_id}--{thread_id}`.
        """
        receipt = await self.post(Post(target=self._source(source_id), body=Body(text=text)), key="")
        return receipt.message_id

    async def update_processing_message(
        self,
        source_id: str,
        message_id: str,
        text: str,
        metadata: Any,  # noqa: ARG002 -- unused
    ) -> None:
        """Replace the text of a message that `create_processing_message` has sent."""
        await self.edit(Edit(target=self._source(source_id), message_id=message_id, body=Body(text=text)))

    def _source(self, source_id: str) -> Target:
        chat, _, thread = source_id.partition("--")
        return Target(channel=self.name, chat=chat, thread=thread or None)

    # Calls

    def _chat(self, chat: str) -> str:
        """The current id of the chat: a group that became a supergroup has a new id."""
        return self._receiver.moved.get(chat, chat)

    async def _call(self, target: Target, call: MethodCall, kind: type[T], *, upload: FileUpload | None = None) -> T:
        chat = self._chat(target.chat)
        try:
            return await self._api.call(call, kind, chat=chat, upload=upload)
        except ChatMoved as moved:
            self._receiver.follow(target.chat, moved.moved_to)
            raise
        except NotSent as fault:
            if fault.retry_after is not None:  # Telegram does not say whether a 429 is for one chat or for the bot
                fault.everywhere = self._limit_scope.is_everywhere(chat, asyncio.get_running_loop().time())
            raise

    def _receipt(self, target: Target, sent: _SentMessage, degraded: str = "") -> Receipt:
        if sent.chat.type == "channel":
            self._broadcasts.add(self._chat(target.chat))
        return Receipt(message_id=str(sent.message_id), degraded=degraded)

    async def _show_seen(self, message: InboundMessage) -> None:
        if message.message_id and not message.edited:
            await self.react(message.target, message.message_id, _SEEN)


def _checked(given: dict[str, Any]) -> BotSettings:
    settings = dict(given)
    if not settings.get("token"):
        settings["token"] = os.environ.get("TELEGRAM_BOT_TOKEN", "")
        if not settings["token"]:
            raise UsageError(
                "the channel telegram needs a token: set TELEGRAM_BOT_TOKEN to the one that @BotFather gave you"
            )
        if base := os.environ.get("TELEGRAM_API_BASE"):
            settings.setdefault("api_base", base)
    try:
        if unknown := settings.keys() - set(BotSettings.__struct_fields__):
            raise UsageError(f"the channel telegram has no setting {', '.join(sorted(unknown))}")
        return msgspec.convert(settings, BotSettings)
    except msgspec.ValidationError as error:
        # Of all reasons, only this one quotes the value, which may be a secret in the wrong place.
        is_mode = str(error).startswith("Invalid enum value")
        reason = 'mode must be "polling" or "webhook"' if is_mode else str(error)
        raise UsageError(f"a setting of the channel telegram is wrong: {reason}") from None
