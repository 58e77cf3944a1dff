"""The channel Slack: performs operations by calls of the Web API, and receives messages and presses of buttons.

`calls` makes the calls, `receiver` receives the events, `errors` says what a refusal means, `lookup` finds messages.
This module never repeats a call and never waits for a rate limit, because the sender of the conversation does both.
"""

from __future__ import annotations

import asyncio
import mimetypes
import os
import time
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from tailrace.channels.limit_scope import LimitScope
from tailrace.channels.sent_file import open_to_send, shown_name
from tailrace.channels.slack import calls, checks
from tailrace.channels.slack.client import SlackCall, SlackClient
from tailrace.channels.slack.errors import NotChanged, StreamEnded
from tailrace.channels.slack.inbound import AppAccount, target_of
from tailrace.channels.slack.limits import IN_THREAD, OUTSIDE_THREAD, PICTURES
from tailrace.channels.slack.lookup import author_of, find_message
from tailrace.channels.slack.receiver import EventReceiver, remember
from tailrace.channels.slack.settings import SlackAppSettings
from tailrace.channels.slack.streams import OpenedStreams, ShownStream
from tailrace.errors import NotSent, SendRefused, UsageError
from tailrace.operations import Body, Edit, Post, Receipt, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tailrace.capabilities import Capabilities
    from tailrace.inbound import Attachment, ButtonPress, InboundMessage
    from tailrace.operations import AppendStream, CloseStream, Delete, OpenStream, PostMedia, Typing
    from tailrace.ports import Finding, Inbox

T = TypeVar("T")

_SEEN = "👀"
_ENVIRONMENT = {"bot_token": "SLACK_BOT_TOKEN", "app_token": "SLACK_APP_TOKEN", "api_base": "SLACK_API_BASE"}


class _Sent(msgspec.Struct, frozen=True):
    ts: str


class _UploadUrl(msgspec.Struct, frozen=True):
    file_id: str
    upload_url: str


class _LoadedFile(msgspec.Struct, frozen=True):
    url_private_download: str = ""
    size: int = 0


class _FoundFile(msgspec.Struct, frozen=True):
    file: _LoadedFile


class SlackChannel:
    """A channel that sends and receives as one Slack app. The keyword arguments are the fields of `SlackAppSettings`.

    Without a bot token, the channel takes `SLACK_BOT_TOKEN`, `SLACK_APP_TOKEN` and `SLACK_API_BASE` from the
    environment. `clock` gives the seconds since 1970; it checks the age of signed requests.
    """

    Settings = SlackAppSettings

    def __init__(self, *, name: str = "slack", clock: Callable[[], float] = time.time, **settings: Any) -> None:
        self.name = name
        self.account_name = ""
        self.capabilities = IN_THREAD
        self._settings = _checked(settings)
        self._api = SlackClient(self._settings)
        app_token = self._settings.app_token
        self._socket_api = SlackClient(self._settings, token=app_token) if app_token else None
        on_recorded = self._show_seen if self._settings.reactions else None
        self._receiver = EventReceiver(self._api, self._socket_api, self._settings, on_recorded, clock)
        self._streams = OpenedStreams()
        self._user_id = ""
        self._reactions: dict[tuple[str, str], str] = {}
        self._limit_scope = LimitScope()

    def __repr__(self) -> str:
        return f"SlackChannel(name={self.name!r})"

    async def start(self, inbox: Inbox) -> None:
        """Check the token, then begin to receive. Raises `ChannelFault`, or `UsageError` for a wrong setting."""
        if self._socket_api is None and not self._settings.signing_secret:
            raise UsageError(
                f"the channel {self.name} can receive nothing: set app_token for Socket Mode (SLACK_APP_TOKEN), or "
                "signing_secret for events by HTTP"
            )
        await self._connect(inbox)

    async def start_to_send(self) -> None:
        """Check the token, but receive nothing: Slack gives each event to one of the open sockets."""
        await self._connect(None)

    async def _connect(self, inbox: Inbox | None) -> None:
        for api in self._clients:
            api.open()
        self._receiver.reopen()
        try:
            profile, _scopes = await checks.auth_test(self._api)
            self.account_name = f"@{profile.user}"
            self._user_id = profile.user_id
            if inbox is not None:
                account = AppAccount(
                    channel=self.name,
                    user_id=profile.user_id,
                    bot_id=profile.bot_id,
                    team_id=profile.team_id,
                    enterprise_id=profile.enterprise_id,
                    is_enterprise_install=profile.is_enterprise_install,
                )
                await self._receiver.start(inbox, account)
        except BaseException:
            await self.stop()
            raise

    @property
    def _clients(self) -> list[SlackClient]:
        return [self._api] if self._socket_api is None else [self._api, self._socket_api]

    async def stop(self) -> None:
        """Stop receiving at once, and end all calls."""
        await self._receiver.stop()
        for api in self._clients:
            await api.close()

    async def wait_closed(self) -> None:
        """Wait for `stop`. Raises if the inbox failed for good."""
        await self._receiver.wait_closed()

    @property
    def alive_at(self) -> float:
        """When the socket last showed life or, with events by HTTP, when Slack last answered."""
        return self._receiver.alive_at

    @property
    def proof_every_s(self) -> float:
        """The longest time between two such proofs."""
        return self._receiver.proof_every_s

    def capabilities_of(self, target: Target) -> Capabilities:
        """What Slack can do there. Only threads have streams and a status."""
        return OUTSIDE_THREAD if target.thread is None else IN_THREAD

    # Operations

    async def post(self, post: Post, *, key: str) -> Receipt:
        """Send a message."""
        return _receipt(await self._call(post.target, calls.post_call(post, key), _Sent))

    async def edit(self, edit: Edit) -> Receipt:
        """Replace the text and the buttons of a message."""
        await self._call(edit.target, calls.edit_call(edit), _Sent)
        return Receipt(message_id=edit.message_id)

    async def delete(self, delete: Delete) -> Receipt:
        """Delete a message. Does nothing if the message does not exist any more."""
        try:
            await self._call(delete.target, calls.delete_call(delete), _Sent)
        except SendRefused as refusal:
            if not refusal.gone:
                raise
        return Receipt(message_id=delete.message_id)

    async def typing(self, typing: Typing) -> None:
        """Show in a thread that the bot is typing."""
        if typing.target.thread is not None:
            await self._call(typing.target, calls.status_call(typing.target), dict[str, Any])

    async def react(self, target: Target, message_id: str, emoji: str) -> None:
        """Put a reaction on a message, in place of the earlier one of this process; "" only removes that one."""
        place = target.chat, message_id
        earlier = self._reactions.get(place, "")
        for each, shows in ((earlier, False), (emoji, True)):
            if each and earlier != emoji:
                try:
                    call = calls.reaction_call(target, message_id, each, shows=shows)
                    await self._call(target, call, dict[str, Any])
                except NotChanged:
                    pass
        remember(self._reactions, place, emoji)

    async def acknowledge(self, press: ButtonPress, text: str) -> None:
        """Show a short text to the person who pressed a button."""
        await self._call(press.target, calls.whisper_call(press.target, press.sender.id, text), dict[str, Any])

    async def find(self, target: Target, key: str, since: float) -> Receipt | None:
        """Look up the message with this key. Returns None only if there is none."""
        try:
            if not self._user_id:
                self._user_id = (await checks.auth_test(self._api))[0].user_id
            found = await find_message(self._api, target, key, since=since, user_id=self._user_id, known=self._streams)
        except SendRefused as refusal:
            # Also a thread that is not there any more: whether the message was in it is not known.
            raise NotSent(f"it is not known whether the message arrived: {refusal}") from None
        return None if found is None else Receipt(message_id=found)

    # Streams

    async def open_stream(self, opening: OpenStream, *, key: str) -> Receipt:
        """Open a stream in a thread. Outside of direct messages, it is for the person who wrote last in the thread."""
        target, text = opening.target, calls.markdown_of(opening.body)
        fields = calls.place(target) | {"markdown_text": text}
        if target.group:
            recipient = self._receiver.recipients.get((target.chat, target.thread))
            # Unknown after a restart: then the stream is for the person who began the thread.
            user, team = recipient or await author_of(self._api, target)
            fields |= {"recipient_user_id": user, "recipient_team_id": team}
        sent = await self._call(target, SlackCall("chat.startStream", fields), _Sent)
        self._streams.add(sent.ts, ShownStream(key, text))
        return _receipt(sent)

    async def append_stream(self, appended: AppendStream) -> None:
        """Append text, and show tasks."""
        stream, text = self._streams.get(appended.stream_id), calls.inert(appended.text)
        fields: dict[str, Any] = {"channel": appended.target.chat, "ts": appended.stream_id}
        fields["chunks"] = calls.chunks_of(text, appended.tasks)
        try:
            await self._call(appended.target, SlackCall("chat.appendStream", fields), _Sent)
        except NotSent:
            raise
        except BaseException:
            stream.forget_text()
            raise
        stream.append(text, appended.tasks)

    async def close_stream(self, closing: CloseStream) -> Receipt:
        """Close a stream. If its text is not that of the body, or if it has ended already, edit its message."""
        stream, text = self._streams.get(closing.stream_id), calls.markdown_of(closing.body)
        rest = None if closing.body.buttons else stream.rest_of(text)
        fields: dict[str, Any] = {"channel": closing.target.chat, "ts": closing.stream_id}
        fields["metadata"] = calls.marker(stream.key)
        if chunks := calls.chunks_of(rest or "", stream.last_tasks(closing.tasks)):
            fields["chunks"] = chunks
        try:
            await self._call(closing.target, SlackCall("chat.stopStream", fields), _Sent)
        except StreamEnded:
            rest = None
        except NotSent:
            raise
        except BaseException:
            stream.forget_text()
            raise
        if rest is None:
            await self.edit(Edit(target=closing.target, message_id=closing.stream_id, body=closing.body))
        return Receipt(message_id=closing.stream_id)

    # Files

    async def post_media(self, media: PostMedia, *, key: str) -> Receipt:
        """Send a picture or a file. A file at a URL that is no picture is sent as a link."""
        mime = media.mime or mimetypes.guess_type(media.path or urlsplit(media.url or "").path)[0] or ""
        if media.path is None:
            is_picture = mime in PICTURES
            call = calls.media_call(
                media.target, key, url=media.url or "", caption=media.caption, is_picture=is_picture
            )
            sent = await self._call(media.target, call, _Sent)
            return _receipt(sent, "" if is_picture else "sent as a link")
        with open_to_send(media.path) as file:
            size, name = os.fstat(file.fileno()).st_size, shown_name(media.path)
            fields = {"filename": name, "length": str(size)}
            upload = await self._call(media.target, SlackCall("files.getUploadURLExternal", fields), _UploadUrl)
            await self._api.upload(upload.upload_url, file)
        shared: dict[str, Any] = {"files": [{"id": upload.file_id, "title": name}], "channel_id": media.target.chat}
        if media.target.thread is not None:
            shared["thread_ts"] = media.target.thread
        if media.caption:
            shared["initial_comment"] = calls.inert(media.caption)
        await self._call(media.target, SlackCall("files.completeUploadExternal", shared), dict[str, Any])
        return Receipt(message_id=upload.file_id)

    async def fetch(self, attachment: Attachment, path: Path, *, max_bytes: int) -> None:
        """Download an attachment to a new file. Raises `SendRefused` if the attachment is larger than `max_bytes`."""
        if (attachment.size or 0) > max_bytes:
            raise SendRefused(f"the file has {attachment.size} bytes, and at most {max_bytes} are allowed")
        found = await self._api.call(SlackCall("files.info", {"file": attachment.id}), _FoundFile)
        if found.file.size > max_bytes:
            raise SendRefused(f"the file has {found.file.size} bytes, and at most {max_bytes} are allowed")
        await self._api.download(found.file.url_private_download, path, max_bytes=max_bytes)

    async def check(self) -> Sequence[Finding]:
        """Check the tokens, the scopes and the settings with calls that send nothing. Returns what was found."""
        api = SlackClient(self._settings)  # of its own, because there may be no `stop` after it
        token = self._settings.app_token
        socket_api = SlackClient(self._settings, token=token) if token else None
        try:
            return await checks.check(api, socket_api, self._settings)
        finally:
            await api.close()
            if socket_api is not None:
                await socket_api.close()

    # Processing messages

    async def create_processing_message(self, source_id: str, text: str, metadata: Any) -> str:  # noqa: ARG002 -- unused
        """Send a message and return its id. Works before `start`. `source_id` is `{channel_id}--{thread_ts}`."""
        receipt = await self.post(Post(target=target_of(source_id, self.name), body=_plain(text)), key="")
        return receipt.message_id

    async def update_processing_message(
        self,
        source_id: str,
        message_id: str,
        text: str,
        metadata: Any,  # noqa: ARG002 -- unused
    ) -> None:
        """Replace the text of a message that `create_processing_message` has sent."""
        await self.edit(Edit(target=target_of(source_id, self.name), message_id=message_id, body=_plain(text)))

    async def _call(self, target: Target, call: SlackCall, kind: type[T]) -> T:
        try:
            return await self._api.call(call, kind, chat=target.chat)
        except NotSent as fault:
            if fault.retry_after is not None:
                # A limit counts the calls of a method in the workspace; only for posts there is one of each chat too.
                now = asyncio.get_running_loop().time()
                is_shared = self._limit_scope.is_everywhere(target.chat, now)
                fault.everywhere = is_shared or call.method != "chat.postMessage"
            raise

    async def _show_seen(self, message: InboundMessage) -> None:
        if message.message_id and not message.edited:
            await self.react(message.target, message.message_id, _SEEN)


def _receipt(sent: _Sent, degraded: str = "") -> Receipt:
    return Receipt(message_id=sent.ts, degraded=degraded)


def _checked(given: dict[str, Any]) -> SlackAppSettings:
    settings = dict(given)
    if not settings.get("bot_token"):
        for field, variable in _ENVIRONMENT.items():
            if value := os.environ.get(variable):
                settings.setdefault(field, value)
        if not settings.get("bot_token"):
            raise UsageError(
                "the channel slack needs a token: set SLACK_BOT_TOKEN to the one at api.slack.com/apps, "
                "OAuth & Permissions"
            )
    try:
        if unknown := settings.keys() - set(SlackAppSettings.__struct_fields__):
            raise UsageError(f"the channel slack has no setting {', '.join(sorted(unknown))}")
        return msgspec.convert(settings, SlackAppSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"a setting of the channel slack is wrong: {error}") from None


def _plain(text: str) -> Body:
    return Body(text=escape(text, quote=False))
