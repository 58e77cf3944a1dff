"""What a call of the bot acts on, and the checks that many methods share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.testing.platforms.slack.objects import message_object
from tailrace.testing.platforms.slack.rules import SlackRefusal

if TYPE_CHECKING:
    from tailrace.testing.platforms.slack.world import SlackChat, SlackMessage, SlackWorld


class Scene(NamedTuple):
    """A call: the world, the address of the simulator, and the time."""

    world: SlackWorld
    base: str
    now: float

    def chat(self, chat_id: str, *, to_write: bool = True) -> SlackChat:
        """Find a chat. Raises `SlackRefusal` if there is none, or if the bot is no member of it."""
        chat = self.world.chats.get(chat_id)
        if chat is None or (chat.type == "group" and not chat.is_bot_member):
            raise SlackRefusal("channel_not_found")
        if not chat.is_bot_member:
            raise SlackRefusal("not_in_channel")
        if to_write and chat.is_archived:
            raise SlackRefusal("is_archived")
        return chat

    def thread(self, chat: SlackChat, thread: str | None) -> str | None:
        """The `ts` of the message that began the thread. Raises `SlackRefusal` if there is no such message."""
        if thread is None:
            return None
        root = chat.messages.get(thread)
        if root is None or root.deleted_at is not None:
            raise SlackRefusal("thread_not_found")
        return root.thread or thread

    def message(self, chat: SlackChat, ts: str) -> SlackMessage:
        """Find a message. Raises `SlackRefusal` if there is none, or if it was deleted."""
        message = chat.messages.get(ts)
        if message is None or message.deleted_at is not None:
            raise SlackRefusal("message_not_found")
        return message

    def shown(self, message: SlackMessage) -> dict[str, Any]:
        """The message as an object of the Web API."""
        return message_object(self.world, message, self.base, self.now)

    def event(self, chat: SlackChat, event: dict[str, Any]) -> None:
        """Queue an event of the kind `message` for the app."""
        channel_type = {"im": "im", "channel": "channel", "group": "group"}[chat.type]
        content = {"type": "message", "channel": chat.id, "channel_type": channel_type, **event}
        self.world.new_events.append(("events_api", content | {"event_ts": f"{self.now:.6f}"}))
